//! A configuration revision as an operator writes it: `[env]` and `[files."NAME"]`.
//!
//! Invariant: as for every other file, all faults are found in one pass; there is a revision only if
//! there is none. What `source` names is read by the caller, who is asked for each once.

use baton_types::limits::{REVISION_ENV_MAX, REVISION_FILES_MAX, REVISION_MAX_BYTES};
use baton_types::revision::{
    REVISION_MODE_DEFAULT, REVISION_MODE_MASK, Revision, RevisionFile, check_file_name,
    check_variable,
};
use toml::de::DeValue;

use crate::document::{Document, Place};
use crate::fault::Fault;
use crate::limits::{ENV_VALUE_MAX_BYTES, PATH_MAX_BYTES};
use crate::section::Section;
use crate::source::SourceFile;
use crate::value;

/// Reads the text of a file that `source` names, relative to the revision's file; an error is a
/// sentence with what was found.
pub type ReadSource<'a> = &'a dyn Fn(&str) -> Result<String, String>;

/// Reads a revision.
///
/// # Errors
///
/// Every fault of the file.
pub fn parse_revision(file: &SourceFile, read: ReadSource<'_>) -> Result<Revision, Vec<Fault>> {
    let document = Document::new(file);
    let revision = document
        .parse()
        .map(|table| read_revision(&document, Section::root(&document, &table), read));
    let (mut faults, mut warnings) = (Vec::new(), Vec::new());
    document.finish(&mut faults, &mut warnings);
    match revision {
        Some(revision) if faults.is_empty() => Ok(revision),
        _ => Err(faults),
    }
}

fn read_revision<'a>(
    document: &'a Document<'a>,
    mut root: Section<'a>,
    read: ReadSource<'_>,
) -> Revision {
    let mut revision = Revision::default();
    for (name, (value, _)) in root.map("env", REVISION_ENV_MAX, variable) {
        revision.env.insert(name, value);
    }
    for (name, section) in root.named_tables("files", REVISION_FILES_MAX) {
        if let Err(fault) = check_file_name(&name) {
            document.fault(&section.place, fault.to_string());
        }
        if let Some(file) = read_file(section, read) {
            revision.files.insert(name, file);
        }
    }
    root.finish();
    // What no single name can know; with other faults it may be their consequence only.
    if !document.has_faults()
        && let Err(fault) = revision.check()
    {
        document.fault(&Place { offset: 0, key: "file".to_owned() }, fault.to_string());
    }
    revision
}

fn read_file(mut section: Section<'_>, read: ReadSource<'_>) -> Option<RevisionFile> {
    let document = section.document;
    let top = section.place.clone();
    let content = section.read("content", None, |found| text(found).map(Some));
    let source = section.read("source", None, |found| path(found).map(Some));
    let mode = section.read("mode", REVISION_MODE_DEFAULT, mode);
    let absent = content.is_absent() && source.is_absent();
    section.finish();
    let (text, place) = match (content.value, source.value) {
        (Some(_), Some(_)) => {
            let message = "found content and source; one of them is allowed".to_owned();
            document.fault(&source.place, message);
            return None;
        }
        (Some(text), None) => (text, content.place),
        (None, Some(path)) => match read(&path) {
            Ok(text) => (text, source.place),
            Err(message) => {
                document.fault(&source.place, message);
                return None;
            }
        },
        (None, None) => {
            if absent {
                let message = "found neither content nor source; one of them is required";
                document.fault(&top, message.to_owned());
            }
            return None;
        }
    };
    let file = RevisionFile { content: text, mode: mode.value };
    if let Err(fault) = file.check(&top.key) {
        document.fault(&place, fault.to_string());
        return None;
    }
    Some(file)
}

fn variable(name: &str, found: &DeValue<'_>) -> Result<String, String> {
    check_variable(name).map_err(|fault| fault.to_string())?;
    let wanted = format!("a string without NUL of at most {ENV_VALUE_MAX_BYTES} bytes");
    let text = value::string(found, &wanted)?;
    if text.len() > ENV_VALUE_MAX_BYTES || text.contains('\0') {
        return Err(value::mismatch(found, &wanted));
    }
    Ok(text.to_owned())
}

fn text(found: &DeValue<'_>) -> Result<String, String> {
    let wanted = format!("a string of at most {REVISION_MAX_BYTES} bytes");
    let text = value::string(found, &wanted)?;
    if text.len() > REVISION_MAX_BYTES {
        return Err(format!("found {} bytes; {wanted} is allowed", text.len()));
    }
    Ok(text.to_owned())
}

fn path(found: &DeValue<'_>) -> Result<String, String> {
    let wanted = format!("a path of 1 to {PATH_MAX_BYTES} bytes");
    let path = value::string(found, &wanted)?;
    if path.is_empty() || path.len() > PATH_MAX_BYTES || path.contains(char::is_control) {
        return Err(value::mismatch(found, &wanted));
    }
    Ok(path.to_owned())
}

fn mode(found: &DeValue<'_>) -> Result<u32, String> {
    let wanted = "a string of four octal digits from \"0400\" to \"0777\", readable by its owner,";
    let text = value::string(found, wanted)?;
    let digits = text.len() == 4 && text.bytes().all(|b| (b'0'..b'8').contains(&b));
    let mode = u32::from_str_radix(text, 8).ok().filter(|_| digits);
    mode.filter(|mode| mode & !REVISION_MODE_MASK == 0 && mode & 0o400 != 0)
        .ok_or_else(|| value::mismatch(found, wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &str) -> Result<String, String> {
        match path {
            "redis.conf" => Ok("port ${PORT}\n".to_owned()),
            "bad.conf" => Ok("port ${".to_owned()),
            _ => Err(format!("cannot read {path}: no such file")),
        }
    }

    fn parsed(text: &str) -> Result<Revision, Vec<String>> {
        let found = parse_revision(&SourceFile::new("r.toml", text), &read);
        found.map_err(|faults| faults.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_revision_is_read_with_what_its_sources_hold() {
        let revision = parsed(
            "[env]\nMAX = \"64\"\n[files.\"redis.conf\"]\nsource = \"redis.conf\"\n\
             [files.\"conf.d/a\"]\ncontent = \"\"\"\na $$ ${MAX}\n\"\"\"\nmode = \"0600\"\n",
        )
        .expect("a revision");
        assert_eq!(revision.env["MAX"], "64");
        let file = |name: &str| (revision.files[name].content.as_str(), revision.files[name].mode);
        assert_eq!(file("redis.conf"), ("port ${PORT}\n", 0o640));
        assert_eq!(file("conf.d/a"), ("a $$ ${MAX}\n", 0o600));
    }

    #[test]
    fn every_fault_has_its_place_and_says_what_is_allowed() {
        for (text, wanted) in [
            ("", &["r.toml:1:1: file: found neither a variable nor a file"][..]),
            ("env = 1", &["r.toml:1:7: env: found 1; a table is allowed"]),
            ("[env]\nA = 1", &["r.toml:2:1: env.A: found 1; a string without NUL"]),
            ("[env]\nBATON_X = \"\"", &["r.toml:2:1: env.BATON_X: found the variable"]),
            ("[envv]\nA = \"\"", &["r.toml:1:2: envv: unknown key; did you mean \"env\"?"]),
            ("[files]\na = 1", &["r.toml:2:1: files.a: found 1; a table is allowed"]),
            ("[files.a]", &["r.toml:1:8: files.a: found neither content nor source"]),
            (
                "[files.a]\ncontent = \"\"\nsource = \"redis.conf\"",
                &["r.toml:3:10: files.a.source: found content and source; one of them"],
            ),
            (
                "[files.\"../x\"]\ncontent = \"\"\nmode = \"640\"\nuser = \"a\"",
                &[
                    "r.toml:1:8: files.../x: found the file name \"../x\"; a relative path",
                    "r.toml:3:8: files.../x.mode: found \"640\"; a string of four octal digits",
                    "r.toml:4:1: files.../x.user: unknown key; allowed here: content, source, mode",
                ],
            ),
            (
                "[files.a]\nsource = \"nope\"\n[files.b]\nsource = \"bad.conf\"",
                &[
                    "r.toml:2:10: files.a.source: cannot read nope: no such file",
                    "r.toml:4:10: files.b.source: found in line 1 a \"${\"",
                ],
            ),
            (
                "[files.a]\ncontent = \"\"\n[files.\"a/b\"]\ncontent = \"\"",
                &["r.toml:1:1: file: found the file \"a\" and another one below it"],
            ),
            ("[files.a]\ncontent = 'x", &["r.toml:2:"]),
        ] {
            let faults = parsed(text).expect_err(text);
            assert_eq!(faults.len(), wanted.len(), "{text}: {faults:#?}");
            for (fault, wanted) in faults.iter().zip(wanted) {
                assert!(fault.starts_with(wanted), "{text}: {fault}");
            }
        }
    }
}
