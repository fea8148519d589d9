"""The marks of transformers' tests."""

MARKS = "accelerate_tests flash_attn_test flash_attn_3_test flash_attn_4_test order slow torch_compile_test"


def pytest_configure(config):
    for name in MARKS.split():
        config.addinivalue_line("markers", f"{name}: of transformers")
