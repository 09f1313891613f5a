"""Credential forms: how credentials of services look, with their sources.

A form is searched by its anchors, texts that each of its credentials has, and its pattern is tried only there. Repeats
give nothing back, so that a search takes linear time however many near misses a text has.
"""

from __future__ import annotations

import re

from msgspec import Struct

_GITLEAKS = "https://github.com/gitleaks/gitleaks/blob/master/config/gitleaks.toml"
_GENERIC = "https://github.com/gitleaks/gitleaks/blob/master/cmd/generate/config/rules/generic.go"
# What may be before a credential: no letter or digit, except those of an escape in JSON within JSON.
_START = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrtbf])|(?<=\\u00[0-9a-fA-F]{2}))"
# The value of a variable or member: none that begins like code, a reference or a path. Most credentials have a digit.
_VALUE = r"(?P<secret>(?![$<({\[*./~]|(?i:null|none|true|false|undefined|process\.|os\.|env\.))"
_WORD = _VALUE + r"[A-Za-z0-9_+/=.~!@#%^&*:-]{8,}+)"
_VALUE += r"(?=[^\s0-9\"'\\]{0,80}+[0-9])[A-Za-z0-9_+/=.~!@#%^&*:-]{8,}+)"
_IS = r"\\{0,8}+[\"']?+[ \t]{0,3}+(?:=>|:=|[=:])[ \t]{0,3}+\\{0,8}+[\"']?+"


class CredentialForm(Struct, frozen=True, kw_only=True):
    """One form. `match` is tried `lead` characters before an anchor; of its group `secret`, if it has one, only that is
    a credential. `ignores_case` is about the anchors."""

    kind: str
    anchors: tuple[str, ...]
    pattern: re.Pattern[str]
    source: str
    lead: int = 0
    ignores_case: bool = False

    @property
    def has_secret_group(self) -> bool:
        """Whether only a part of what matches is a credential."""
        return "secret" in self.pattern.groupindex


def _form(
    kind: str, anchors: str, pattern: str, source: str = _GITLEAKS, *, lead: int = 0, ignores_case: bool = False
) -> CredentialForm:
    return CredentialForm(
        kind=kind,
        anchors=tuple(anchors.split(" | ")),
        pattern=re.compile(pattern, re.ASCII),
        source=source,
        lead=lead,
        ignores_case=ignores_case,
    )


FORMS: tuple[CredentialForm, ...] = (
    # Models.
    _form(
        "anthropic-key", "sk-ant-", r"sk-ant-[A-Za-z0-9_-]{20,}+", "https://platform.claude.com/docs/en/api/overview"
    ),
    _form(
        "openai-key",
        "sk-",
        _START + r"sk-(?!ant-)(?=[A-Za-z_-]{0,80}+[0-9])[A-Za-z0-9_-]{20,}+",
        "https://platform.openai.com/docs/api-reference/authentication",
    ),
    _form(
        "google-key", "AIza", _START + r"AIza[A-Za-z0-9_-]{35}", "https://cloud.google.com/docs/authentication/api-keys"
    ),
    _form(
        "google-token",
        "ya29.",
        r"ya29\.[A-Za-z0-9_-]{20,}+",
        "https://cloud.google.com/docs/authentication/token-types",
    ),
    _form("google-secret", "GOCSPX-", r"GOCSPX-[A-Za-z0-9_-]{28}", "https://docs.cloud.google.com/docs/authentication"),
    _form("groq-key", "gsk_", _START + r"gsk_[A-Za-z0-9]{40,}+", "https://console.groq.com/docs/quickstart"),
    _form("xai-key", "xai-", _START + r"xai-[A-Za-z0-9]{40,}+", "https://docs.x.ai/docs/overview"),
    _form("perplexity-key", "pplx-", _START + r"pplx-[A-Za-z0-9]{40,}+"),
    _form("huggingface-token", "hf_ | api_org_", _START + r"(?:hf_|api_org_)[A-Za-z]{30,}+"),
    _form(
        "replicate-token",
        "r8_",
        _START + r"r8_[A-Za-z0-9]{30,}+",
        "https://replicate.com/docs/topics/security/api-tokens",
    ),
    _form("dragoman-key", "dgm_", r"dgm_[0-9A-Za-z]{49}", "src/dragoman/identities/key_text.py"),
    # Clouds.
    _form(
        "aws-key-id",
        "AKIA | ASIA | ABIA | ACCA",
        _START + r"A(?:KIA|SIA|BIA|CCA)[A-Z2-7]{16}(?![A-Za-z0-9])",
        "https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html",
    ),
    _form(
        "aws-secret",
        "aws_secret | secretaccesskey | aws_session_token | secret_access_key",
        r"(?i:aws_secret_(?:access_)?key|secret_?access_?key|aws_session_token)"
        + _IS
        + r"(?P<secret>[A-Za-z0-9/+=]{40,}+)",
        "https://docs.aws.amazon.com/IAM/latest/UserGuide/id_credentials_access-keys.html",
        ignores_case=True,
    ),
    _form("bedrock-key", "ABSK", _START + r"ABSK[A-Za-z0-9+/]{100,}+={0,2}+"),
    _form("azure-secret", "Q~", r"[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}+", lead=4),
    _form(
        "azure-storage-key",
        "AccountKey=",
        r"AccountKey=(?P<secret>[A-Za-z0-9+/]{40,}+={0,2}+)",
        "https://learn.microsoft.com/azure/storage/common/storage-configure-connection-string",
    ),
    _form("digitalocean-token", "dop_v1_ | doo_v1_ | dor_v1_", r"do[opr]_v1_[a-f0-9]{64}"),
    _form("alibaba-key-id", "LTAI", _START + r"LTAI[A-Za-z0-9]{12,20}+(?![A-Za-z0-9])"),
    _form("vault-token", "hvs. | hvb.", _START + r"hv[sb]\.[A-Za-z0-9_-]{24,}+"),
    _form("terraform-token", ".atlasv1.", r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,}+", lead=14),
    _form("databricks-token", "dapi", _START + r"dapi[a-f0-9]{32}(?:-[0-9])?+"),
    _form("heroku-key", "HRKU-AA", r"HRKU-AA[0-9A-Za-z_-]{58}"),
    _form("fly-token", "fo1_ | fm1r_ | fm2_", _START + r"(?:fo1_|fm1r_|fm2_)[A-Za-z0-9_+/=-]{40,}+"),
    # Code and packages.
    _form(
        "github-token",
        "ghp_ | gho_ | ghu_ | ghs_ | ghr_ | github_pat_",
        r"(?:gh[pousr]_[A-Za-z0-9]{36,}+|github_pat_[A-Za-z0-9_]{22,}+)",
        "https://github.blog/engineering/behind-githubs-new-authentication-token-formats/",
    ),
    _form(
        "gitlab-token",
        "glpat- | gldt- | glrt- | glptt- | glcbt- | glsoat- | glft- | glagent- | gloas-",
        r"gl(?:pat|dt|rt|ptt|cbt|soat|ft|agent|oas)-[A-Za-z0-9_.-]{20,}+",
        "https://docs.gitlab.com/security/tokens/",
    ),
    _form("npm-token", "npm_", _START + r"npm_[A-Za-z0-9]{36}"),
    _form("pypi-token", "pypi-", r"pypi-[A-Za-z0-9_-]{50,}+", "https://pypi.org/help/#apitoken"),
    _form("rubygems-token", "rubygems_", r"rubygems_[a-f0-9]{48}"),
    _form(
        "docker-token",
        "dckr_",
        r"dckr_(?:pat|oat)_[A-Za-z0-9_-]{20,}+",
        "https://docs.docker.com/security/access-tokens/",
    ),
    _form("atlassian-token", "ATATT3", r"ATATT3[A-Za-z0-9_=-]{100,}+"),
    _form("linear-key", "lin_api_ | lin_oauth_", r"lin_(?:api|oauth)_[A-Za-z0-9]{40,}+"),
    _form("notion-token", "ntn_", _START + r"ntn_[A-Za-z0-9]{40,}+"),
    # Talk, mail and money.
    _form(
        "slack-token",
        "xoxb- | xoxp- | xoxa- | xoxr- | xoxs- | xoxe- | xoxc- | xoxd- | xapp-",
        r"(?:xox[bparsecd]-(?:\d-)?+|xapp-)[A-Za-z0-9-]{10,}+",
        "https://docs.slack.dev/authentication/tokens",
    ),
    _form(
        "slack-webhook",
        "hooks.slack.com/",
        r"hooks\.slack\.com/(?P<secret>(?:services|workflows|triggers)/[A-Za-z0-9/]{20,}+)",
    ),
    _form("discord-webhook", "/api/webhooks/", r"/api/webhooks/(?P<secret>[0-9]{15,22}+/[A-Za-z0-9_-]{50,}+)"),
    _form("telegram-token", ":AA", r"(?<![0-9])[0-9]{8,10}:AA[A-Za-z0-9_-]{32,}+", lead=10),
    _form("telegram-token", ":AA", r"(?<![0-9])[0-9]{9}:AA[A-Za-z0-9_-]{32,}+", lead=9),
    _form("telegram-token", ":AA", r"(?<![0-9])[0-9]{8}:AA[A-Za-z0-9_-]{32,}+", lead=8),
    _form("sendgrid-key", "SG.", _START + r"SG\.[A-Za-z0-9_-]{16,32}+\.[A-Za-z0-9_-]{30,}+"),
    _form("twilio-key", "SK", _START + r"SK[0-9a-f]{32}(?![A-Za-z0-9])"),
    _form("mailgun-key", "key-", _START + r"key-[0-9a-f]{32}(?![A-Za-z0-9])"),
    _form("mailchimp-key", "-us", _START + r"[0-9a-f]{32}-us[0-9]{1,2}+(?![A-Za-z0-9])", lead=32),
    _form("stripe-key", "_live_ | _test_ | _prod_", r"(?:sk|rk)_(?:live|test|prod)_[A-Za-z0-9]{16,}+", lead=2),
    _form("stripe-webhook-secret", "whsec_", r"whsec_[A-Za-z0-9+/=]{24,}+", "https://docs.stripe.com/webhooks"),
    _form("square-token", "EAAA", _START + r"EAAA[A-Za-z0-9_-]{60}(?![A-Za-z0-9_-])"),
    _form("shopify-token", "shpat_ | shpca_ | shppa_ | shpss_", r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"),
    # Watching.
    _form(
        "grafana-token", "glc_ | glsa_", _START + r"(?:glc_[A-Za-z0-9+/=]{32,}+|glsa_[A-Za-z0-9]{32}_[a-fA-F0-9]{8})"
    ),
    _form("newrelic-key", "NRAK- | NRII-", r"NR(?:AK|II)-[A-Za-z0-9-]{27,32}+"),
    _form("sentry-token", "sntrys_ | sntryu_", r"sntry[su]_[A-Za-z0-9+/=_]{40,}+"),
    _form("dynatrace-token", "dt0c01.", r"dt0c01\.[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    # Forms of many services.
    _form("1password-token", "ops_eyJ", r"ops_eyJ[A-Za-z0-9+/]{100,}+={0,3}+"),
    _form("age-key", "AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[0-9A-Z]{58}"),
    _form(
        "json-web-token",
        "eyJ",
        r"(?<![A-Za-z0-9_.-])eyJ[A-Za-z0-9_-]{10,}+\.eyJ[A-Za-z0-9_-]{10,}+\.[A-Za-z0-9_-]{10,}+"
        r"|(?<=\\[nrt])eyJ[A-Za-z0-9_-]{10,}+\.eyJ[A-Za-z0-9_-]{10,}+\.[A-Za-z0-9_-]{10,}+",
        "https://www.rfc-editor.org/rfc/rfc7519",
    ),
    _form(
        "private-key",
        "-----BEGIN ",
        r"-----BEGIN [A-Z0-9 ]{0,40}+(?<=PRIVATE KEY)(?: BLOCK)?+-----"
        r"(?:[A-Za-z0-9+/=\s:,.]|-(?!----)|\\{1,8}+[nrt]){40,}+"
        r"(?:-----END [A-Z0-9 ]{0,40}+-----)?+",
        "https://www.rfc-editor.org/rfc/rfc7468",
    ),
    _form(
        "private-key",
        "-----BEGIN PGP PRIVATE",
        r"-----BEGIN PGP PRIVATE KEY BLOCK-----(?:[A-Za-z0-9+/=\s:,.()]|-(?!----)|\\{1,8}+[nrt]){40,}+"
        r"(?:-----END [A-Z0-9 ]{0,40}+-----)?+",
        "https://www.rfc-editor.org/rfc/rfc4880",
    ),
    _form(
        "authorization",
        "bearer  | basic  | token ",
        _START + r"(?i:bearer|basic|token) {1,4}+(?P<secret>(?=[A-Za-z_.~+/=-]{0,80}+[0-9])[A-Za-z0-9_.~+/=-]{20,}+)",
        "https://www.rfc-editor.org/rfc/rfc9110#name-authorization",
        ignores_case=True,
    ),
    _form(
        "connection-password",
        "://",
        r"://[^\s/:@\"'\\<>]{0,100}+:(?P<secret>(?![$<{%\[])[^\s/@\"'\\<>]{3,200}+)@",
        "https://www.rfc-editor.org/rfc/rfc3986#section-3.2.1",
    ),
    _form(
        "variable",
        "KEY | TOKEN | SECRET | CREDENTIAL",
        r"(?:(?<=[A-Z0-9_])KEY|TOKEN|SECRET|CREDENTIALS?+)(?:_[A-Z0-9]{1,16}+)?+" + _IS + _VALUE,
        _GENERIC,
    ),
    _form(
        "variable",
        "api_key | apikey | api-key | access_key | accesskey | secret_key | secretkey | client_secret | clientsecret"
        " | access_token | accesstoken | refresh_token | refreshtoken | auth_token | authtoken | private_key | id_token"
        " | session_token | sessiontoken",
        r"(?i:(?:api|access|secret|private)[_-]?+key|client_?+secret|(?:access|refresh|auth|id|session)_?+token)"
        + _IS
        + _VALUE,
        _GENERIC,
        ignores_case=True,
    ),
    _form(
        "password",
        "password | passwd | passphrase",
        r"(?i:pass(?:word|wd|phrase))(?i:_[A-Z0-9]{1,16}+)?+" + _IS + _WORD,
        _GENERIC,
        ignores_case=True,
    ),
    _form(
        "cookies",
        "cookie:",
        r"(?i:cookie): {0,4}+(?P<secret>(?!\[)(?:[^\s\"'\\]|(?<=;) ){8,}+)",
        "https://www.rfc-editor.org/rfc/rfc6265",
        ignores_case=True,
    ),
)
