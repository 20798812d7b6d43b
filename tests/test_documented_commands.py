"""Every command line of README.md, MIGRATION.md and the examples is run as it is written there.

In the order of the document, in a small project that has the files that the document names. What is
not run is in NOT_RUN, with the reason.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.documented_project import ADAPTIVE, CONST, FILES, Project
from tests.markdown import ROOT, blocks, prose, read, shell_commands

EXAMPLES = [f"examples/{name}/README.md" for name in ("determined-0.12", "digits", "pedl")]
EXAMPLES.append("examples/pedl-trial/README.md")
# What these tell of comes after MIGRATION.md has been followed, or is a trial from elsewhere.
GUIDES = ["docs/start.md", "docs/search.md", "docs/mnist.md"]
DOCUMENTS = ["README.md", "docs/runs.md", "docs/tracking.md", "MIGRATION.md", *GUIDES, *EXAMPLES]

NOT_RUN = {
    "make demo": "installs the project; its command is that of examples/digits",
    "make test": "would run this test",
    "pip install '.[cli,migrate,search]'": "installs, from a registry",
    "pip install google-cloud-storage": "installs, from a registry",
    "det checkpoint download UUID -o DIR": "needs a Determined cluster",
    "python -m determined.launch.horovod --trial model_def:MyTrial": "needs a Determined cluster",
    "python -m determined.launch.torch_distributed python train.py": "needs a Determined cluster",
    "det-compat run -m determined.launch.torch_distributed --nproc_per_node=2 -- python train.py": (
        "tests/launch/test_torch_distributed.py runs such a command"
    ),
    "det-compat search adaptive.yaml --run-dir tracked --tracking mlflow": "README.md's search is "
    "run; tests/tracking/test_sending.py has what is sent of one",
    "python examples/pedl/train.py --devices 2": "tests/test_example_pedl.py runs it",
    "det-compat search examples/digits/adaptive.yaml": "trains for minutes; README.md's search is "
    "run",
}

# docs/mnist.md works on a repository that has to be fetched.
NOT_RUN |= dict.fromkeys(
    [
        "git clone --depth 1 --branch 0.38.1 https://github.com/determined-ai/determined",
        "cd determined/examples/tutorials/mnist_pytorch",
        "pip install torchvision filelock ruamel.yaml",
        "det-compat check train.py data.py model.py const.yaml",
        "det-compat migrate train.py model.py --to lightning",
        "det-compat migrate train.py model.py --to lightning --write",
    ],
    "needs files that are fetched",
)

VERIFIED = r"verified: \d+ batches, every tensor bit for bit"
FITTED = r"run directory +│ \S*/runs/(mine|digits)/\d\d\d"
#: What a command prints; the statuses of those that do not end with 0.
PRINTS = {
    "det-compat run train.py --its-own arguments": r"rank 0 of 1: \['--its-own', 'arguments'\]",
    "torchrun --nproc_per_node=2 --no-python det-compat run train.py": "rank 1 of 2",
    "det-compat fit const.yaml": FITTED,
    "det-compat fit const.yaml --resume": FITTED,
    "det-compat fit const.yaml --ckpt_path DIR": r"latest checkpoint +│ \S+/DIR",
    "det-compat search adaptive.yaml": r"results\.json, results\.csv, results\.png",
    "det-compat init src/": r"wrote \S+/src/train\.py, for model_def:MyTrial",
    "det-compat fit src/const.yaml --model.hparams.lr 0.1": r"resume it by +│ det-compat fit src/",
    "det-compat runs show MyTrial/001": r"hyperparameter lr +│ 0\.1",
    "det-compat runs show search_mine": r"search_mine/trials/0000",
    "det-compat runs": r"runs/mine/001 +│ done(.|\n)*search_mine +│ done",
    "det-compat runs --state failed --state killed --since 7d": "no runs like that",
    "det-compat runs --where 'lr>0.001' --sort best": r"runs/mine/001 +│ done",
    "det-compat runs --name 'mine*' --trials --json": r'"path": "\S+/search_mine/trials/0000"',
    "det-compat runs show mine/001": r"go on with it by +│ det-compat fit const.yaml",
    "det-compat runs compare mine/001 mine/002": r"best error +│ 0\.\d+ +│ 0\.",
    "det-compat runs checkpoints mine/001 --best 3": r"checkpoints/\S+ +│ \d+ +│ 0\.",
    "det-compat runs logs mine/001": r"run directory +│ \S*/runs/mine/001",
    "det-compat runs logs search_mine --trial 0": r"\S",
    "det-compat fit const.yaml --tracking mlflow": r"curves: mlflow server --backend-store-uri",
    "det-compat runs track mine/001": r"sent: mlflow server --backend-store-uri sqlite:/",
    "det-compat checkpoint register DIR --name mine": r"registered models:/mine/1 at sqlite:/",
    "det-compat checkpoint show DIR": r"safe to load: yes",
    "det-compat check .": r"0 are refused, 0 are unknown; 0 places could not be read",
    "det-compat check src/": r"1 file, .* 0 are unknown; 0 places could not be read",
    "det-compat check model_def.py": r"1 file, 0 references to Determined",
    "det-compat config explain const.yaml": r"mapped .*trains once",
    "det-compat migrate . --to det_compat": r"\+from det_compat\.pytorch import DataLoader",
    "det-compat migrate . --to context": r"0 MIGRATE comments",
    "det-compat migrate model_def.py --to lightning": r"\+class MyTrial\(pl\.LightningModule\)",
    "det-compat migrate model_def.py --to lightning --write": r"1 trials rewritten",
    "det-compat migrate model_def.py --to lightning --config const.yaml --verify": VERIFIED,
    "python main.py fit --config const.lightning.yaml": r"`max_epochs=2` reached",
    "python main.py fit --config const.lightning.yaml --ckpt_path migrated.ckpt "
    "--trainer.max_epochs 4": r"Restored all states(.|\n)*`max_epochs=4` reached",
    "det-compat migrate model_def.py --to lightning --config const.yaml --write": (
        "3 of 4 files written"
    ),
    "det-compat verify old.py:MyTrial model_def.py:MyTrial --config const.yaml --batches 100": (
        "identical: 16 batches"
    ),
    "det-compat run examples/digits/train.py": r"best accuracy: 9[789]\.\d\d%",
    "det-compat fit examples/digits/const.yaml": FITTED,
    "det-compat validate examples/digits/const.yaml --resume": r" 15 +- .* 9[789]\.\d\d%",
    "python examples/determined-0.12/train.py": r"validation 5: accuracy (9[5-9]|100)\.\d%",
    "python examples/pedl/train.py": r"validation_error: 0\.0",
    "det-compat run examples/pedl-trial/pedl_train.py": r"'validation_error'",
}


def commands(document: str) -> list[str]:
    return shell_commands(read(document))


def python_block(document: str, words: str) -> str:
    (code,) = (b.code for b in blocks(read(document)) if b.language == "python" and words in b.code)
    return code


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def run_all(document: str, project: Project, done: set[str]) -> list[str]:
    """Run the commands of a document but for those that were; the problems that there were."""
    problems = []
    for command in commands(document):
        if command not in NOT_RUN and command not in done:
            problems += run(command, project)
            done.add(command)
    return problems


def run(command: str, project: Project) -> list[str]:
    if re.search(r"\bDIR\b", command) and not (project.folder / "DIR").exists():
        project.keep_checkpoint("DIR")
    result = project.run(command)
    expected = PRINTS.get(command, "")
    if result.status == 0 and re.search(expected, result.output):
        return []
    return [f"$ {command}\n{result.output[-2000:]}\nexit status {result.status}, not: {expected}"]


@pytest.mark.xdist_group("documented commands")
@pytest.mark.timeout(900)
def test_commands_of_the_readme_and_the_guide(project: Project) -> None:
    cli = python_block("README.md", "LightningCLI(TrialModule)")
    main = python_block("MIGRATION.md", "LightningCLI(MyTrial)")
    project.write({**FILES, "cli.py": cli, "main.py": main})
    done: set[str] = set()
    problems = run_all("README.md", project, done) + run_all("docs/runs.md", project, done)
    project.restore()
    problems += run_all("docs/tracking.md", project, done)
    problems += run_all("MIGRATION.md", project, done)
    problems += [p for document in GUIDES for p in run_all(document, project, done)]
    weights = python_block("MIGRATION.md", "load_state_dict")
    (project.folder / "weights.py").write_text(weights)
    problems += run("python weights.py", project)
    assert not problems, "\n\n".join(problems)
    there = {path.name for path in project.folder.iterdir()}
    assert {"OUT.ckpt", "OUT.pt", "check.json", "const.lightning.yaml"} <= there
    searched = {path.name for path in (project.folder / "search_mine").iterdir()}
    assert {"results.csv", "results.json", "results.png", "trials"} <= searched
    assert (project.folder / "runs" / "mine" / "001" / "tensorboard").is_dir()
    assert json.loads((project.folder / "check.json").read_text())["works"]
    assert "det_compat" not in (project.folder / "model_def.py").read_text()


@pytest.mark.xdist_group("documented examples")
@pytest.mark.timeout(900)
@pytest.mark.thorough
def test_commands_of_the_examples(project: Project) -> None:
    project.folder.mkdir()
    project.copy_examples()
    problems = [p for document in EXAMPLES for p in run_all(document, project, set())]
    assert not problems, "\n\n".join(problems)


def test_what_is_listed_is_in_a_document() -> None:
    there = {command for document in DOCUMENTS for command in commands(document)}
    assert {*NOT_RUN, *PRINTS} - there == set()


def test_every_example_has_its_readme_here() -> None:
    found = {str(path.relative_to(ROOT)) for path in ROOT.glob("examples/*/README.md")}
    assert found == set(EXAMPLES)


@pytest.mark.parametrize(
    "document", [*DOCUMENTS, *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
)
def test_commands_in_the_text_exist(document: str) -> None:
    from det_compat.cli import _COMMANDS

    known = {module.__name__.rpartition(".")[2] for module in _COMMANDS}
    known |= {"validate"}
    inline = re.findall(r"`det-compat (\w+)", prose(read(document)))
    listed = [line.split()[1] for line in commands(document) if line.startswith("det-compat ")]
    assert {*inline, *listed} <= known


def test_configs_of_the_project_are_valid(tmp_path: Path) -> None:
    from det_compat.config import read_config

    for text in (CONST, ADAPTIVE):
        (tmp_path / "const.yaml").write_text(text)
        assert read_config(tmp_path / "const.yaml").hyperparameters
