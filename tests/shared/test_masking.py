from __future__ import annotations

from pathlib import Path

import pytest

from det_compat.shared.masking import MASK, holds_secrets, without_secrets


@pytest.mark.parametrize(
    "key", ["access_key", "secret_key", "credentials", "connection_string", "password", "token"]
)
def test_values_of_secret_keys_are_masked_at_any_depth(key):
    config = {"checkpoint_storage": {"type": "s3", "bucket": "b", key: "s3cr3t"}}
    assert without_secrets(config) == {
        "checkpoint_storage": {"type": "s3", "bucket": "b", key: MASK}
    }
    assert without_secrets([{key.upper(): 1234}]) == [{key.upper(): MASK}]


def test_the_whole_of_registry_auth_is_masked():
    config = {"environment": {"registry_auth": {"username": "u", "auth": "x"}}}
    assert without_secrets(config) == {"environment": {"registry_auth": MASK}}


def test_environment_variables_keep_their_names():
    by_list = {"environment_variables": ["A=secret", "B=x=y", "HOME"]}
    assert without_secrets(by_list) == {"environment_variables": [f"A={MASK}", f"B={MASK}", "HOME"]}
    by_device = {"environment_variables": {"cpu": ["A=secret"], "cuda": [], "gpu": None}}
    assert without_secrets(by_device) == {
        "environment_variables": {"cpu": [f"A={MASK}"], "cuda": [], "gpu": None}
    }
    by_name = {"environment_variables": {"A": "secret"}}
    assert without_secrets(by_name) == {"environment_variables": {"A": MASK}}


def test_variables_of_a_pod_are_masked_and_other_env_lists_are_not():
    env = [{"name": "A", "value": "secret"}, {"name": "B", "valueFrom": {"fieldRef": 1}}]
    pod = {"pod_spec": {"spec": {"containers": [{"env": env}]}}}
    masked = without_secrets(pod)["pod_spec"]["spec"]["containers"][0]["env"]
    assert masked == [{"name": "A", "value": MASK}, env[1]]
    assert without_secrets({"hyperparameters": {"env": ["CartPole"]}}) == {
        "hyperparameters": {"env": ["CartPole"]}
    }


def test_a_password_in_a_url_is_masked():
    assert without_secrets({"url": "https://me:pw@host/x"}) == {"url": f"https://me:{MASK}@host/x"}
    assert without_secrets("https://host:8080/a@b") == "https://host:8080/a@b"


def test_what_is_no_secret_is_kept_and_the_config_is_not_changed():
    config = {"mask_token": "[MASK]", "tokens": 3, "a": [1, (2.5, None)], "password": "", 7: True}
    kept = without_secrets(config)
    assert kept == config and kept is not config
    config = {"token": "t"}
    without_secrets(config)
    assert config == {"token": "t"}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("a: 1\nstorage: {secret_key: hush}", True),
        ("a: 1\n---\ntoken: hush", True),
        ('{"environment_variables": ["A=hush"]}', True),
        ("secret_key: ''", False),
        ("a: [", False),
        ("\0", False),
        ("", False),
    ],
)
def test_files_that_hold_secrets(text: str, holds: bool, tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(text)
    assert holds_secrets(file) is holds
    assert not holds_secrets(tmp_path / "nothere.yaml")
