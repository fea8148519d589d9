"""What PyInstaller does not find by imports: modules that are imported on first use, and data files."""

# only PyInstaller imports this file
from PyInstaller.utils.hooks import collect_data_files, collect_submodules  # ty: ignore[import-not-found]

datas = collect_data_files("hf_summ")
hiddenimports = collect_submodules("hf_summ")
# transformers reads the source code of models
module_collection_mode = "pyz+py"
