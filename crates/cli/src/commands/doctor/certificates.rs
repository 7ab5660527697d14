//! Certificates: whose they are, and how long they are good.

use std::{
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use server::{
    pki::{self, Shown},
    tls::ROLE_URI_PREFIX,
};

use super::finding::Finding;

/// A certificate that ends within this is to be renewed now: two weeks leave time for a holiday.
const SOON_DAYS: i64 = 14;
const DAY_S: i64 = 24 * 60 * 60;

/// Looks at files of certificates, each with what it is, and at the file of those that are revoked.
pub(super) fn look(files: &[(String, PathBuf)], revoked: Option<&Path>) -> Vec<Finding> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| i64::try_from(time.as_secs()).unwrap_or(i64::MAX));
    files.iter().map(|(what, file)| one(what, file, now)).chain(revoked.map(|file| list(file, now))).collect()
}

fn list(file: &Path, now: i64) -> Finding {
    const NAME: &str = "revoked";
    match pki::list_is_due(file) {
        Ok(Some(due)) if due <= now => Finding::wrong(
            NAME,
            format!(
                "{} should have been replaced {} days ago; certificates revoked since then are still accepted",
                file.display(),
                (now - due) / DAY_S
            ),
            "put the authority's latest list there; the service takes it by itself",
        ),
        Ok(_) => Finding::well(NAME, format!("{} is the latest list", file.display())),
        Err(error) => Finding::wrong(NAME, error.to_string(), "mend the path or the file; run this as a user who may read it"),
    }
}

fn one(what: &str, file: &Path, now: i64) -> Finding {
    match pki::show(file) {
        Ok(shown) => judge(&format!("{what} {}", file.display()), &shown, now),
        Err(error) => {
            Finding::wrong("certificate", format!("{what}: {error}"), "mend the path or the file; run this as a user who may read it")
        }
    }
}

fn judge(what: &str, shown: &Shown, now: i64) -> Finding {
    let days = (shown.not_after - now).div_euclid(DAY_S);
    let role = shown.names.iter().find_map(|name| name.strip_prefix(ROLE_URI_PREFIX));
    let role = role.map_or_else(String::new, |role| format!(", role {role}"));
    let of = format!("{what} ({:?}{role})", shown.subject);
    const RENEW: &str =
        "antiphase-topology pki renew --dir DIR --name NAME, and put the new files in place of these; nobody needs a restart";
    if now < shown.not_before {
        Finding::wrong(
            "certificate",
            format!("{of} is not good before {} s from now", shown.not_before - now),
            "set the clock of this machine or of the issuer's",
        )
    } else if now >= shown.not_after {
        Finding::wrong("certificate", format!("{of} ended {} days ago", -days), RENEW)
    } else if days < SOON_DAYS {
        Finding::wrong("certificate", format!("{of} ends in {days} days"), RENEW)
    } else {
        Finding::well("certificate", format!("{of} is good for {days} days"))
    }
}

#[cfg(test)]
mod tests {
    use super::{super::finding::Verdict, *};

    #[test]
    fn a_certificate_is_renewed_two_weeks_before_its_end() {
        let shown = |role: &str| Shown {
            subject: "h1".into(),
            issuer: "ca".into(),
            names: vec!["h1".into(), format!("{ROLE_URI_PREFIX}{role}")],
            not_before: 0,
            not_after: 100 * DAY_S,
        };
        let at = |now: i64| {
            let found = judge("x", &shown("agent"), now);
            (found.verdict, found.says)
        };
        assert_eq!(at(86 * DAY_S), (Verdict::Well, "x (\"h1\", role agent) is good for 14 days".into()));
        assert_eq!(at(86 * DAY_S + 1), (Verdict::Wrong, "x (\"h1\", role agent) ends in 13 days".into()));
        assert_eq!(at(101 * DAY_S), (Verdict::Wrong, "x (\"h1\", role agent) ended 1 days ago".into()));
        assert_eq!(at(-5), (Verdict::Wrong, "x (\"h1\", role agent) is not good before 5 s from now".into()));
        let gone = look(&[("own certificate".into(), "/nowhere/a.pem".into())], None);
        assert!(gone[0].verdict == Verdict::Wrong && gone[0].says.starts_with("own certificate: /nowhere/a.pem: "), "{gone:?}");
    }
    #[test]
    fn a_list_of_revoked_certificates_has_a_successor_in_time() {
        let temp = tempfile::tempdir().unwrap();
        pki::init(temp.path(), &["localhost".into()], false).unwrap();
        let file = pki::revoked_path(temp.path());
        let due = pki::list_is_due(&file).unwrap().unwrap();
        assert_eq!(list(&file, due - 1).verdict, Verdict::Well);
        let late = list(&file, due + 3 * DAY_S);
        assert!(late.verdict == Verdict::Wrong && late.says.contains("3 days ago"), "{late:?}");
        // A certificate is no list.
        let wrong = list(&pki::authority_path(temp.path()), 0);
        assert!(wrong.verdict == Verdict::Wrong && wrong.says.contains("no list of revoked"), "{wrong:?}");
        assert_eq!(look(&[], Some(&file)).len(), 1);
    }
}
