"""Fake credentials, one or more per form. They are put together here, so that no scanner takes them for real ones."""

from __future__ import annotations

import base64

_A20, _A40 = "a1B2c3D4e5F6g7H8i9J0", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0"
_HEX32 = "0123456789abcdef" * 2
_PEM = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7"


def _jwt() -> str:
    parts = ('{"alg":"HS256","typ":"JWT"}', '{"sub":"1234567890","name":"J"}', "signature-of-thirty-bytes-here")
    return ".".join(base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts)


_FAKES: dict[str, list[str | tuple[str, str]]] = {
    "anthropic-key": ["sk-" + "ant-api03-" + _A40 + _A40 + "-AA", "sk-" + "ant-oat01-" + _A40],
    "openai-key": ["sk-" + "proj-" + _A40, "sk-" + _A40, "sk-" + "svcacct-" + _A40],
    "google-key": ["AI" + "zaSy" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q"],
    "google-token": ["ya" + "29." + _A40],
    "google-secret": ["GOC" + "SPX-" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4"],
    "groq-key": ["gs" + "k_" + _A40 + "abcdefghij12"],
    "xai-key": ["xa" + "i-" + _A40 + _A40],
    "perplexity-key": ["pp" + "lx-" + _A40 + "abcdefgh"],
    "huggingface-token": ["h" + "f_" + "abcdefghijklmnopqrstuvwxyzABCDEFGH", "api" + "_org_" + "abcdefghij" * 4],
    "replicate-token": ["r" + "8_" + _A40],
    "dragoman-key": ["dg" + "m_" + _A40 + "abcdefghi"],
    "aws-key-id": ["AK" + "IA" + "IOSFODNN7EXAMPLE".replace("1", "2"), "AS" + "IA" + "IOSFODNN7EXAMPLE"],
    "aws-secret": [("aws_secret_access_key = " + _A40, _A40), ('"SecretAccessKey": "' + _A40 + '"', _A40)],
    "bedrock-key": ["AB" + "SK" + _A40 * 3 + "=="],
    "azure-secret": ["abc" + "8Q" + "~" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6"],
    "azure-storage-key": [("Account" + "Key=" + _A40 + _A40 + "ABCDEF==", _A40 + _A40 + "ABCDEF==")],
    "digitalocean-token": ["dop" + "_v1_" + _HEX32 * 2],
    "alibaba-key-id": ["LT" + "AI" + _A20],
    "vault-token": ["hv" + "s." + _A40],
    "terraform-token": ["a1B2c3D4e5F6g7" + ".atlas" + "v1." + _A40 + _A20],
    "databricks-token": ["da" + "pi" + _HEX32],
    "heroku-key": ["HRKU" + "-AA" + _A40 + "abcdefghijklmnopqr"],
    "fly-token": ["fm" + "2_" + _A40, "fo" + "1_" + _A40 + "abc"],
    "github-token": ["gh" + "p_" + _A40, "gh" + "s_" + _A40, "github" + "_pat_" + _A40 + _A40],
    "gitlab-token": ["gl" + "pat-" + _A20],
    "npm-token": ["np" + "m_" + _A40[:36]],
    "pypi-token": ["py" + "pi-" + "AgEIcHlwaS5vcmc" + _A40],
    "rubygems-token": ["ruby" + "gems_" + _HEX32 + "0123456789abcdef"],
    "docker-token": ["dck" + "r_pat_" + _A40],
    "atlassian-token": ["ATA" + "TT3" + _A40 * 3],
    "linear-key": ["lin" + "_api_" + _A40],
    "notion-token": ["nt" + "n_" + _A40 + "abcdef"],
    "slack-token": ["xo" + "xb-" + "123456789012-123456789012-" + _A20, "xa" + "pp-" + "1-A0123-" + _A20],
    "slack-webhook": [
        (
            "https://hooks.slack" + ".com/services/T00000000/B00000000/" + _A20,
            "services/T00000000/B00000000/" + _A20,
        )
    ],
    "discord-webhook": [
        (
            "https://discord.com/api" + "/webhooks/123456789012345678/" + _A40 + _A20,
            "123456789012345678/" + _A40 + _A20,
        )
    ],
    "telegram-token": [f"{number}:A" + "A" + _A40[:33] for number in ("1234567890", "123456789", "12345678")],
    "sendgrid-key": ["S" + "G." + "a1B2c3D4e5F6g7H8i9J0k1" + "." + _A40 + "abc"],
    "twilio-key": ["S" + "K" + _HEX32],
    "mailgun-key": ["ke" + "y-" + _HEX32],
    "mailchimp-key": [_HEX32 + "-us" + "14"],
    "stripe-key": ["sk" + "_live_" + _A40, "rk" + "_test_" + _A20],
    "stripe-webhook-secret": ["whs" + "ec_" + _A40],
    "square-token": ["EA" + "AA" + _A40 + _A20],
    "shopify-token": ["shp" + "at_" + _HEX32],
    "grafana-token": ["gl" + "c_" + _A40 + "ab==", "gl" + "sa_" + _HEX32 + "_01234567"],
    "newrelic-key": ["NR" + "AK-" + "A1B2C3D4E5F6G7H8I9J0K1L2M3N"],
    "sentry-token": ["sntr" + "ys_" + _A40 + "="],
    "dynatrace-token": ["dt0" + "c01." + "A1B2C3D4E5F6G7H8I9J0K1L2." + "A1B2C3D4" * 8],
    "1password-token": ["ops" + "_eyJ" + _A40 * 3],
    "age-key": ["AGE-SECRET" + "-KEY-1" + "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7LQPZRY9X8GF2TVDW0S3JN54KHCE"],
    "json-web-token": [_jwt()],
    "private-key": [
        *(
            f"-----BEGIN {kind}PRIVATE" + f" KEY-----\n{_PEM}\n{_PEM}=\n-----END {kind}PRIVATE" + " KEY-----"
            for kind in ("", "RSA ", "OPENSSH ", "EC ")
        ),
        "-----BEGIN PGP PRIVATE" + f" KEY BLOCK-----\n\n{_PEM}\n-----END PGP PRIVATE" + " KEY BLOCK-----",
    ],
    "authorization": [("Authorization: Bear" + "er " + _A40, _A40), ("authorization: Bas" + "ic " + _A20, _A20)],
    "connection-password": [
        ("postgres://user:" + "p4ss-w0rd" + "@db.internal:5432/app", "p4ss-w0rd"),
        ("redis://:" + "s3cr3t" + "@cache:6379", "s3cr3t"),
    ],
    "variable": [
        ("STRIPE_KEY=" + "kf83-hdk2-8dkw", "kf83-hdk2-8dkw"),
        ("export MY_API_TOKEN='" + "q8-d83jd83" + "'", "q8-d83jd83"),
        ('{"api_key": "' + "q8d83jd83" + '"}', "q8d83jd83"),
        ("clientSecret: " + "q8d83jd83ke", "q8d83jd83ke"),
    ],
    "password": [
        ("DB_PASSWORD=" + "correct.horse", "correct.horse"),
        ('{"password": "' + "correct.horse" + '"}', "correct.horse"),
    ],
    "cookies": [("Set-Cookie: " + "session=a1b2c3d4e5f6; id=abcdef", "session=a1b2c3d4e5f6; id=abcdef")],
}
# Each text, and the part of it that is the credential.
FAKES: dict[str, list[tuple[str, str]]] = {
    kind: [(fake, fake) if isinstance(fake, str) else fake for fake in fakes] for kind, fakes in _FAKES.items()
}
