from __future__ import annotations

import pytest

from det_compat.shared.masking import (
    MASK,
    for_checkpoint,
    holds_secrets,
    is_secret_name,
    without_secrets,
)


@pytest.mark.parametrize(
    "key", ["access_key", "secret_key", "credentials", "connection_string", "password", "token"]
)
def test_values_of_secret_keys_are_masked_at_any_depth(key):
    config = {"checkpoint_storage": {"type": "s3", "bucket": "b", key: "s3cr3t"}}
    assert without_secrets(config) == {
        "checkpoint_storage": {"type": "s3", "bucket": "b", key: MASK}
    }
    assert without_secrets([{key.upper(): "1234"}]) == [{key.upper(): MASK}]


@pytest.mark.parametrize(
    "name",
    [
        "api_key",
        "apiKey",
        "APIKey",
        "x-api-key",
        "private_key",
        "passwd",
        "password2",
        "db_pass",
        "client_secret",
        "auth",
        "aws_secret_access_key",
        "awsSecretAccessKey",
        "hf_token",
        "GITHUB_TOKEN",
        "WANDB_API_KEY",
        "ssh_key",
        "connection_string",
        "registry_auth",
        "credentials",
        "encryption_key",
        "account_key",
        "authorization",
        "PGPASSWORD",
        "PRIVATEKEY",
        "accesskey",
        "passwords",
        "api_keys",
        "gcp_creds",
        "jwt",
    ],
)
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "pad_token",
        "eos_token",
        "mask_token",
        "num_tokens",
        "max_tokens",
        "token_dim",
        "token_id",
        "tokenizer",
        "author",
        "key",
        "keys",
        "query_key",
        "hot_key",
        "monkey",
        "single_pass",
        "n_pass",
        "bypass",
        "password_file",
        "secret_path",
        "lr",
    ],
)
def test_names_that_are_none_of_secrets(name: str) -> None:
    assert not is_secret_name(name)


def test_numbers_are_secrets_unless_they_may_be_of_tokens() -> None:
    config = {"token": 512, "auth": 0.5, "password": True, "api_key": None}
    assert without_secrets(config) == config
    assert without_secrets({"password": 1, "access_key": 2}) == {
        "password": MASK,
        "access_key": MASK,
    }


@pytest.mark.parametrize(
    ("value", "masked"),
    [
        ("Bearer abcdefgh.ijk", f"Bearer {MASK}"),
        ("https://x.net/c?se=1&sig=a%2Fb&sp=r", f"https://x.net/c?se=1&sig={MASK}&sp=r"),
        ("python t.py --hf-token abc --lr 0.1", f"python t.py --hf-token {MASK} --lr 0.1"),
        ("WANDB_API_KEY=abc python t.py", f"WANDB_API_KEY={MASK} python t.py"),
        (["--api-key", "abc", "--n", "3"], ["--api-key", MASK, "--n", "3"]),
        (["--password=abc", "--password-file=x"], [f"--password={MASK}", "--password-file=x"]),
        ("key AKIAABCDEFGHIJKLMNOP.", f"key {MASK}."),
        ("hf_" + "aB" * 17, MASK),
        ("-----BEGIN RSA PRIVATE KEY-----\nab\n-----END RSA PRIVATE KEY-----", MASK),
        ("--mask-token [MASK] a=b c: d", "--mask-token [MASK] a=b c: d"),
        ("t.py --password 'a b' --hf-token \"c\" x", f"t.py --password {MASK} --hf-token {MASK} x"),
        ("https://me:p@ss,w@host/x, a@b", f"https://me:{MASK}@host/x, a@b"),
        (
            "at https://hooks.slack.com/services/T0/B0/" + "x" * 20,
            f"at https://hooks.slack.com/services/{MASK}",
        ),
    ],
)
def test_secrets_within_texts(value, masked) -> None:
    assert without_secrets({"args": value}) == {"args": masked}


def test_keys_of_other_services_are_told_by_their_looks() -> None:
    config = {"wandb_key": "0123456789abcdef" * 2, "sort_key": "validation_accuracy_top_5_percent"}
    assert without_secrets(config) == {**config, "wandb_key": MASK}
    assert holds_secrets('wandb.login(key="' + config["wandb_key"] + '")', is_code=True)


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
        ("environment_variables:\n  cpu:\n    - A=hush", True),
        ("environment_variables: {A: hush}", True),
        ("pod_spec:\n  env:\n    - name: A\n      value: hush", True),
        ("url: https://me:hush@host", True),
        ('{"private_key": "-----BEGIN PRIVATE KEY-----\\nabc"}', True),
        ("AWS_SECRET_ACCESS_KEY=abc+/def", True),
        ("environment_variables: []\na: 1", False),
        ("secret_key: ''", False),
        ("token: null\npassword: ${PASSWORD}", False),
        ("a: [", False),
        ("\0", False),
        ("", False),
    ],
)
def test_settings_that_hold_secrets(text: str, holds: bool) -> None:
    assert holds_secrets(text) is holds


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ('API_KEY = "abcd1234"', True),
        ('login(token="hf_' + "aB" * 17 + '")', True),
        ('def f(token: str = "abcd1234"): ...', True),
        ('os.environ["WANDB_API_KEY"] = "abcd1234"', True),
        ('os.getenv("HF_TOKEN", "abcd1234")', True),
        ('p.add_argument("--api-key", default="abcd1234")', True),
        ('API_KEY = (\n    b"abcd1234"\n)', True),
        ('TOKEN = """abcd1234"""', True),
        ('def f(api_key: str | None = "abcd1234"): ...', True),
        ('print(token, "abcd1234")', False),
        ('password = os.environ["PASSWORD_1"]', False),
        ("self.token = config.token", False),
        ('pad_token = "<pad>"\ntokenizer = "bert-base-2"', False),
        ('api_key = "your api key 1"', False),
    ],
)
def test_programs_that_hold_secrets(text: str, holds: bool) -> None:
    assert holds_secrets(text, is_code=True) is holds


def test_a_trial_that_is_loaded_gets_its_hyperparameters() -> None:
    config = {"hyperparameters": {"token": "bpe", "password": 7}, "data": {"token": "hush"}}
    assert for_checkpoint(config) == {**config, "data": {"token": MASK}}
    assert for_checkpoint(None) is None and config["data"] == {"token": "hush"}
