//! What tokens of well-known services look like: the one list that all share who look for secrets.

use super::Kind;

/// The characters of a token behind its beginning.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Class {
    /// Letters and digits.
    Plain,
    /// And `_` and `-`.
    Word,
    /// And `.`.
    Dotted,
    /// Hexadecimal digits.
    Hex,
    /// Upper-case letters and digits.
    Upper,
    /// What base64 has.
    Base64,
    /// What may stand behind `Bearer`.
    Credential,
    /// The path of an address.
    Path,
}

impl Class {
    /// How many there are.
    pub(super) const COUNT: usize = 8;

    pub(super) fn has(self, byte: u8) -> bool {
        match self {
            Self::Plain => byte.is_ascii_alphanumeric(),
            Self::Word => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'),
            Self::Dotted => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'),
            Self::Hex => byte.is_ascii_hexdigit(),
            Self::Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Self::Base64 => byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='),
            Self::Credential => {
                byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'~' | b'+' | b'/' | b'=' | b'-')
            }
            Self::Path => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'/' | b'@'),
        }
    }
}

/// How sure the beginning alone makes us.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Sure {
    /// Nothing else begins like that.
    Quite,
    /// Words do, too: there must be a digit.
    WithDigit,
    /// So many characters and not one more.
    Exactly,
    /// The same, and no part of a longer word.
    Alone,
    /// An address whose last part is no example.
    LastPart,
}

/// One kind of token.
pub(super) struct Shape {
    pub(super) begins: &'static str,
    pub(super) class: Class,
    /// The fewest characters behind the beginning.
    pub(super) least: usize,
    pub(super) sure: Sure,
    pub(super) kind: Kind,
}

const fn shape(begins: &'static str, class: Class, least: usize, sure: Sure, kind: Kind) -> Shape {
    Shape { begins, class, least, sure, kind }
}

use Class::{Base64, Credential, Dotted, Hex, Path, Plain, Upper, Word};
use Sure::{Alone, Exactly, LastPart, Quite, WithDigit};

/// All of them; of two that begin alike the longer is first.
pub(super) const SHAPES: &[Shape] = &[
    shape("sk-ant-", Word, 10, Quite, Kind::Model),
    shape("sk-proj-", Word, 10, Quite, Kind::Model),
    shape("sk-svcacct-", Word, 10, Quite, Kind::Model),
    shape("sk-None-", Word, 10, Quite, Kind::Model),
    shape("sk-admin-", Word, 10, WithDigit, Kind::Model),
    shape("sk-or-", Word, 10, WithDigit, Kind::Model),
    shape("sk-", Plain, 10, Quite, Kind::Model),
    shape("gsk_", Plain, 20, Quite, Kind::Model),
    shape("xai-", Plain, 20, Quite, Kind::Model),
    shape("pplx-", Plain, 20, Quite, Kind::Model),
    shape("nvapi-", Word, 20, Quite, Kind::Model),
    shape("hf_", Plain, 16, WithDigit, Kind::Model),
    shape("r8_", Plain, 20, Quite, Kind::Model),
    shape("tvly-", Word, 12, WithDigit, Kind::Model),
    shape("fw_", Plain, 20, WithDigit, Kind::Model),
    shape("lsv2_", Word, 20, WithDigit, Kind::Model),
    shape("sk_live_", Plain, 10, Quite, Kind::Stripe),
    shape("sk_test_", Plain, 10, Quite, Kind::Stripe),
    shape("rk_live_", Plain, 10, Quite, Kind::Stripe),
    shape("rk_test_", Plain, 10, Quite, Kind::Stripe),
    shape("pk_live_", Plain, 12, Quite, Kind::Stripe),
    shape("whsec_", Plain, 16, Quite, Kind::Stripe),
    shape("sk_", Plain, 12, WithDigit, Kind::Other),
    shape("github_pat_", Word, 12, Quite, Kind::GitHub),
    shape("ghp_", Plain, 12, Quite, Kind::GitHub),
    shape("gho_", Plain, 12, Quite, Kind::GitHub),
    shape("ghu_", Plain, 12, Quite, Kind::GitHub),
    shape("ghs_", Plain, 12, Quite, Kind::GitHub),
    shape("ghr_", Plain, 12, Quite, Kind::GitHub),
    shape("glpat-", Dotted, 12, Quite, Kind::GitLab),
    shape("gldt-", Word, 16, WithDigit, Kind::GitLab),
    shape("glrt-", Word, 16, WithDigit, Kind::GitLab),
    shape("glcbt-", Word, 16, WithDigit, Kind::GitLab),
    shape("glft-", Word, 16, WithDigit, Kind::GitLab),
    shape("glptt-", Word, 16, WithDigit, Kind::GitLab),
    shape("gloas-", Word, 16, WithDigit, Kind::GitLab),
    shape("glsoat-", Word, 16, WithDigit, Kind::GitLab),
    shape("AKIA", Upper, 16, Exactly, Kind::Aws),
    shape("ASIA", Upper, 16, Exactly, Kind::Aws),
    shape("ABIA", Upper, 16, Exactly, Kind::Aws),
    shape("ACCA", Upper, 16, Exactly, Kind::Aws),
    shape("ABSK", Base64, 40, WithDigit, Kind::Aws),
    shape("amzn.mws.", Word, 36, Exactly, Kind::Aws),
    shape("xoxb-", Word, 10, Quite, Kind::Slack),
    shape("xoxp-", Word, 10, Quite, Kind::Slack),
    shape("xoxa-", Word, 10, Quite, Kind::Slack),
    shape("xoxr-", Word, 10, Quite, Kind::Slack),
    shape("xoxs-", Word, 10, Quite, Kind::Slack),
    shape("xoxc-", Word, 10, Quite, Kind::Slack),
    shape("xoxd-", Word, 10, Quite, Kind::Slack),
    shape("xoxe-", Word, 10, Quite, Kind::Slack),
    shape("xapp-", Word, 10, WithDigit, Kind::Slack),
    shape("hooks.slack.com/services/", Path, 24, LastPart, Kind::Slack),
    shape("hooks.slack.com/workflows/", Path, 24, LastPart, Kind::Slack),
    shape("hooks.slack.com/triggers/", Path, 24, LastPart, Kind::Slack),
    shape("AIza", Word, 20, Quite, Kind::Google),
    shape("ya29.", Word, 10, Quite, Kind::Google),
    shape("GOCSPX-", Word, 12, Quite, Kind::Google),
    shape("1//0", Word, 30, WithDigit, Kind::Google),
    shape("npm_", Plain, 20, Quite, Kind::Registry),
    shape("pypi-AgE", Word, 12, Quite, Kind::Registry),
    shape("pypi-", Word, 32, WithDigit, Kind::Registry),
    shape("dckr_pat_", Word, 12, Quite, Kind::Registry),
    shape("rubygems_", Hex, 32, Quite, Kind::Registry),
    shape("SG.", Dotted, 20, WithDigit, Kind::Other),
    shape("AC", Hex, 32, Exactly, Kind::Twilio),
    shape("SK", Hex, 32, Exactly, Kind::Twilio),
    shape("dop_v1_", Hex, 16, Quite, Kind::Other),
    shape("doo_v1_", Hex, 16, Quite, Kind::Other),
    shape("dor_v1_", Hex, 16, Quite, Kind::Other),
    shape("lin_api_", Plain, 12, Quite, Kind::Other),
    shape("lin_oauth_", Plain, 12, Quite, Kind::Other),
    shape("ntn_", Plain, 12, WithDigit, Kind::Other),
    shape("secret_", Plain, 20, WithDigit, Kind::Other),
    shape("shpat_", Hex, 16, Quite, Kind::Other),
    shape("shpss_", Hex, 16, Quite, Kind::Other),
    shape("shpca_", Hex, 16, Quite, Kind::Other),
    shape("shppa_", Hex, 16, Quite, Kind::Other),
    shape("glsa_", Word, 16, WithDigit, Kind::Other),
    shape("figd_", Word, 16, WithDigit, Kind::Other),
    shape("PMAK-", Word, 16, WithDigit, Kind::Other),
    shape("ATATT3", Credential, 20, Quite, Kind::Other),
    shape("tskey-", Word, 12, WithDigit, Kind::Other),
    shape("hvs.", Word, 20, Quite, Kind::Other),
    shape("hvb.", Word, 20, Quite, Kind::Other),
    shape("dp.pt.", Plain, 20, WithDigit, Kind::Other),
    shape("dp.st.", Dotted, 20, WithDigit, Kind::Other),
    shape("dp.sa.", Plain, 20, WithDigit, Kind::Other),
    shape("pul-", Hex, 32, Quite, Kind::Other),
    shape("key-", Hex, 32, Alone, Kind::Other),
    shape("NRAK-", Upper, 20, WithDigit, Kind::Other),
    shape("sntrys_", Credential, 32, WithDigit, Kind::Other),
    shape("sntryu_", Hex, 32, Quite, Kind::Other),
    shape("glc_", Base64, 24, WithDigit, Kind::Other),
    shape("HRKU-", Word, 20, WithDigit, Kind::Other),
    shape("sq0atp-", Word, 16, WithDigit, Kind::Other),
    shape("sq0csp-", Word, 16, WithDigit, Kind::Other),
    shape("pscale_tkn_", Dotted, 20, WithDigit, Kind::Other),
    shape("pscale_pw_", Dotted, 20, WithDigit, Kind::Other),
    shape("rnd_", Plain, 24, WithDigit, Kind::Other),
    shape("vercel_blob_rw_", Word, 20, WithDigit, Kind::Other),
    shape("fm2_", Credential, 40, WithDigit, Kind::Other),
    shape("AGE-SECRET-KEY-1", Upper, 40, Quite, Kind::Other),
    shape("discord.com/api/webhooks/", Path, 40, LastPart, Kind::Other),
    shape("discordapp.com/api/webhooks/", Path, 40, LastPart, Kind::Other),
    shape("outlook.office.com/webhook/", Path, 40, LastPart, Kind::Other),
    shape("webhook.office.com/webhookb2/", Path, 40, LastPart, Kind::Other),
    shape("sb_secret_", Word, 20, WithDigit, Kind::Other),
    shape("sbp_", Hex, 20, Quite, Kind::Other),
    shape("dapi", Hex, 32, Exactly, Kind::Other),
    shape("kitbag_", Dotted, 64, WithDigit, Kind::Other),
];
