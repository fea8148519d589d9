"""`hf-summ completion`, in a shell."""

import shutil
import subprocess

import pytest

pytest.importorskip("shtab")


def completed(script: str, line: str) -> list[str]:
    """The words with which bash completes the last word of a line."""
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
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_commands_flags_and_choices(run):
    script, _ = run("completion", "bash")
    assert {"summarize", "serve"} <= {*completed(script, "hf-summ s")}
    assert "--min_new_words" in completed(script, "hf-summ summarize --min_")
    assert "windows" in completed(script, "hf-summ summarize --long_documents ")
    # of the recipe, which parses its flags itself
    assert "--lora_r" in completed(script, "hf-summ train --lora")
    assert "--systems" in completed(script, "hf-summ votes make --s")


@pytest.mark.parametrize("shell", ["zsh", "tcsh"])
def test_scripts_for_other_shells(run, shell):
    script, _ = run("completion", shell)
    assert "summarize" in script
