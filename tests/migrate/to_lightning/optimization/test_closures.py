from __future__ import annotations

import pytest

from tests.migrate.rewriting import rewritten, trial

PLAIN = "torch.optim.SGD(self.model.parameters(), lr=0.1)"
AROUND = """\
class Scaled:
    def __init__(self, inner):
        self.inner = inner

    def step({}):
        self.inner.step()


def scaled(inner):
    made = Scaled(inner)
    return made


class Trial("""
NONE, UNKNOWN = "of {}, which takes none", "of {}, and it is not known"


@pytest.mark.parametrize(
    ("step", "made", "said"),
    [
        ("self", f"Scaled({PLAIN})", NONE.format("Scaled")),
        ("self", f"scaled({PLAIN})", NONE.format("Scaled")),
        ("self, closure=None", f"Scaled({PLAIN})", ""),
        ("self, **more", f"scaled({PLAIN})", ""),
        ("self", f"apex.LARC({PLAIN})", UNKNOWN.format("LARC")),
        ("self", f"apex.LARC(optimizer={PLAIN})", UNKNOWN.format("LARC")),
        ("self", PLAIN.replace("torch.optim.SGD", "apex.FusedAdam"), ""),
        ("self", PLAIN.replace("self.model.", "apex.make_optim(self.model)."), ""),
    ],
)
def test_an_optimizer_without_a_closure_is_marked(step, made, said, tmp_path):
    around = ("class Trial(", f"import apex\n\n\n{AROUND.format(step)}")
    after = rewritten(tmp_path, trial((PLAIN, made), around))
    assert ("# MIGRATE: Lightning calls step(closure=...)" in after) is bool(said)
    assert said in after
