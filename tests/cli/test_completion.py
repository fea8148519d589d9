"""`hf-summ completion`, in a shell."""

import shutil
import subprocess

import pytest

pytest.importorskip("shtab")


def completions(script: str, line: str) -> list[str]:
    """The words that bash offers for the last word of a line."""
    words = line.split(" ")
    quoted = " ".join(f"'{word}'" for word in words)
    code = f"""
source /dev/stdin <<'SCRIPT'
{script}
SCRIPT
COMP_WORDS=({quoted})
COMP_CWORD={len(words) - 1}
$(complete -p hf-summ | sed 's/.*-F \\([^ ]*\\).*/\\1/') hf-summ '{words[-1]}' '{words[-2]}'
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    process = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True)
    return process.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_commands_flags_and_choices(run):
    script, _ = run("completion", "bash")
    assert {"summarize", "serve"} <= set(completions(script, "hf-summ s"))
    assert "--min_new_words" in completions(script, "hf-summ summarize --min_")
    assert "windows" in completions(script, "hf-summ summarize --long_documents ")
    # the recipe parses its flags itself
    assert "--lora_r" in completions(script, "hf-summ train --lora")
    assert "--systems" in completions(script, "hf-summ votes make --s")


@pytest.mark.parametrize("shell", ["zsh", "tcsh"])
def test_scripts_for_other_shells(run, shell):
    script, _ = run("completion", shell)
    assert "summarize" in script
