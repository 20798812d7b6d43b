"""Metrics that a trial keeps go with the module to its device, as what they are given must."""

from __future__ import annotations

import pytest

from tests.migrate.rewriting import HEADER, method, rewritten, trial

KEPT = "self.context = context\n        self.metric = {}"
HEADER_ = f"{HEADER}import torchmetrics\nfrom torchmetrics import MeanMetric as Mean\n"


@pytest.mark.parametrize(
    ("metric", "before", "after"),
    [
        ("Mean()", "self.metric(out.cpu())", "self.metric(out)"),
        ("Mean()", "self.metric((out.cpu() > 0).float())", "self.metric((out > 0).float())"),
        ("Mean()", "self.metric.update(out.cpu())", "self.metric.update(out)"),
        (
            "Mean()",
            "self.metric(torch.tensor(1.0))",
            "self.metric(torch.tensor(1.0).to(self.device))",
        ),
        ("Mean()", "self.metric(host)", "self.metric(host.to(self.device))"),
        ("Mean()", "self.metric.compute().numpy()", "self.metric.compute().cpu().numpy()"),
        (
            'torch.nn.ModuleDict({"a": torchmetrics.MeanMetric()})',
            'self.metric["a"](out.cpu())',
            'self.metric["a"](out)',
        ),
        # Lightning does not find these, and others are the project's.
        ('{"a": Mean()}', 'self.metric["a"](out.cpu())', 'self.metric["a"](out.cpu())'),
        ("make()", "self.metric(out.cpu())", "self.metric(out.cpu())"),
        ("Mean()", "self.metric(out)", "self.metric(out)"),
    ],
)
def test_what_a_kept_metric_is_given_is_on_the_device_of_the_module(
    metric, before, after, tmp_path
):
    lines = f"out = self.model(batch)\n        host = out.cpu()\n        seen = {before}"
    evaluated = 'return {"error": self.model(batch).sum()}'
    made = rewritten(
        tmp_path,
        trial(
            ("self.context = context", KEPT.format(metric)),
            (evaluated, f"{lines}\n        print(seen)\n        {evaluated}"),
            header=HEADER_,
        ),
    )
    assert f"seen = {after}\n" in method(made, "validation_step")
