//! What a program, its hooks and its checks see of their surroundings, and how their commands are
//! completed from it.
//!
//! Invariant: expansion is done once. A value that itself contains `${…}` is taken as it is, so
//! the environment can never make a command refer to anything that the release did not name.

use std::collections::BTreeMap;

use baton_types::revision::{Piece, Revision, pieces};
use baton_types::{GroupName, NodeName};

use crate::launch::Launch;
use crate::limits::{EXPANDED_MAX_BYTES, RENDERED_MAX_BYTES};

/// The places that a service has on its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Surroundings {
    /// The node's name.
    pub node: NodeName,
    /// `service.group`.
    pub group: GroupName,
    /// The root of the unpacked release, absolute.
    pub release_dir: String,
    /// The service's own folder, kept across releases; also the working directory.
    pub state_dir: String,
    /// The JSON file of the group's members.
    pub census: String,
    /// The folder of the configuration revision's files, absolute; empty without a revision.
    pub config_dir: String,
    /// The sd_notify socket; only the program itself gets one.
    pub notify_socket: Option<String>,
}

/// Why a command, address or URL could not be completed. Nothing was started; the release or the
/// service's `env` is at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpandError {
    /// The name is not in the environment.
    #[error("{text:?} names ${{{name}}}, which is not set: set it in the service's env")]
    UnknownName {
        /// The whole text.
        text: String,
        /// The unknown name.
        name: String,
    },
    /// `${` without `}`, or something between them that is no name.
    #[error("{text:?} has a ${{ that is not followed by a name (A-Z, a-z, 0-9, _) and }}")]
    NoName {
        /// The whole text.
        text: String,
    },
    /// The result is longer than the kernel takes.
    #[error("{text:?} becomes longer than {EXPANDED_MAX_BYTES} bytes, the most that are allowed")]
    TooLong {
        /// The whole text.
        text: String,
    },
    /// The result has a zero byte, which no argument can carry.
    #[error("{text:?} contains a zero byte")]
    ZeroByte {
        /// The whole text.
        text: String,
    },
    /// There is no first word, or an empty one.
    #[error("the command is empty: the first word must name a program")]
    NoProgram,
    /// The first word leads out of the release.
    #[error(
        "the program {0:?} leads out of the release: a path within it or an absolute one is allowed"
    )]
    Outside(String),
}

/// The whole environment of `launch`, nothing inherited. The service's `env` may set everything
/// (`PATH` and `HOME` too) except the names that Baton itself gives, and the configuration revision
/// goes over it.
pub fn environment(launch: &Launch, place: &Surroundings) -> BTreeMap<String, String> {
    let mut env = BTreeMap::from([
        ("PATH".to_owned(), PATH_DEFAULT.to_owned()),
        ("HOME".to_owned(), place.state_dir.clone()),
    ]);
    env.extend(launch.env.clone());
    env.extend(launch.revision.iter().flat_map(|revision| revision.env.clone()));
    let rollout = launch.rollout.map(|id| id.to_string()).unwrap_or_default();
    let own = [
        ("BATON_NODE", place.node.to_string()),
        ("BATON_GROUP", place.group.to_string()),
        ("BATON_RELEASE", launch.target.release.id.to_string()),
        ("BATON_ROLLOUT", rollout),
        ("BATON_RELEASE_DIR", place.release_dir.clone()),
        ("BATON_STATE_DIR", place.state_dir.clone()),
        ("BATON_CENSUS", place.census.clone()),
        ("BATON_CONFIG_DIR", place.config_dir.clone()),
    ];
    env.extend(own.map(|(name, value)| (name.to_owned(), value)));
    // A socket in `env` would be somebody else's.
    env.remove(NOTIFY_SOCKET);
    if let Some(socket) = &place.notify_socket {
        env.insert(NOTIFY_SOCKET.to_owned(), socket.clone());
    }
    env
}

/// Replaces every `${NAME}` in `text`. Nothing else is special: `$NAME`, `$$` and a lone `$` stay as
/// they are.
///
/// # Errors
///
/// A name that is not set, an unfinished `${`, and a result that no argument can be.
pub fn expand(text: &str, env: &BTreeMap<String, String>) -> Result<String, ExpandError> {
    let shown = || text.chars().take(SHOWN_MAX_CHARS).collect::<String>();
    let mut expanded = String::new();
    let mut rest = text;
    loop {
        let (plain, after) = rest.split_once("${").map_or((rest, None), |(a, b)| (a, Some(b)));
        let mut pieces = [plain, ""];
        if let Some(after) = after {
            let no_name = || ExpandError::NoName { text: shown() };
            let (name, behind) = after.split_once('}').ok_or_else(no_name)?;
            let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
            if name.is_empty() || !name.bytes().all(fits) {
                return Err(no_name());
            }
            pieces[1] = env.get(name).ok_or_else(|| ExpandError::UnknownName {
                text: shown(),
                name: name.chars().take(SHOWN_MAX_CHARS).collect(),
            })?;
            rest = behind;
        }
        for piece in pieces {
            if expanded.len() + piece.len() > EXPANDED_MAX_BYTES {
                return Err(ExpandError::TooLong { text: shown() });
            }
            expanded.push_str(piece);
        }
        if after.is_none() {
            break;
        }
    }
    if expanded.contains('\0') {
        return Err(ExpandError::ZeroByte { text: shown() });
    }
    Ok(expanded)
}

/// Replaces every `${NAME}` in a file of a configuration revision; `$$` becomes `$`.
///
/// # Errors
///
/// A sentence that names the file and its line: a name that is not set, or a result that is larger
/// than [`RENDERED_MAX_BYTES`].
pub fn render(name: &str, text: &str, env: &BTreeMap<String, String>) -> Result<String, String> {
    let mut rendered = String::new();
    for piece in pieces(text) {
        let piece = match piece.map_err(|fault| format!("{name}: {fault}"))? {
            Piece::Plain(text) => text,
            Piece::Name(unknown, line) => env.get(unknown).ok_or_else(|| {
                let unknown: String = unknown.chars().take(SHOWN_MAX_CHARS).collect();
                format!(
                    "{name}, line {line}, names ${{{unknown}}}, which is not set: set it in the \
                     revision's [env] or in the service's env"
                )
            })?,
        };
        if rendered.len() + piece.len() > RENDERED_MAX_BYTES {
            return Err(format!(
                "{name} becomes larger than {RENDERED_MAX_BYTES} bytes, the most that are allowed"
            ));
        }
        rendered.push_str(piece);
    }
    Ok(rendered)
}

/// Whether every file of `revision` can be written for a service with this local environment: each
/// name is set, whatever its value will be. Asked before anything is stopped.
///
/// # Errors
///
/// The first fault, as [`render`] says it.
pub fn check_names(
    revision: &Revision,
    service_env: &BTreeMap<String, String>,
) -> Result<(), String> {
    let given = OWN_NAMES.iter().map(|name| ((*name).to_owned(), String::new()));
    let mut env: BTreeMap<String, String> = given.collect();
    env.extend(service_env.clone());
    env.extend(revision.env.clone());
    env.remove(NOTIFY_SOCKET);
    revision.files.iter().try_for_each(|(name, file)| render(name, &file.content, &env).map(drop))
}

/// Completes a command: every word expanded, the first one made absolute below `release_dir`.
///
/// # Errors
///
/// See [`expand`]; also a command without a program, and one whose program is outside the release
/// without being absolute.
pub fn argv(
    command: &[String],
    env: &BTreeMap<String, String>,
    release_dir: &str,
) -> Result<Vec<String>, ExpandError> {
    let mut words =
        command.iter().map(|word| expand(word, env)).collect::<Result<Vec<String>, _>>()?;
    let program =
        words.first_mut().filter(|word| !word.is_empty()).ok_or(ExpandError::NoProgram)?;
    if !program.starts_with('/') {
        if program.split('/').any(|part| part == "..") {
            return Err(ExpandError::Outside(program.chars().take(SHOWN_MAX_CHARS).collect()));
        }
        *program = format!("{}/{program}", release_dir.trim_end_matches('/'));
    }
    Ok(words)
}

/// Names that are set for every program, whatever its files say. `NOTIFY_SOCKET` is not among
/// them: hooks and checks have none.
const OWN_NAMES: [&str; 10] = [
    "PATH",
    "HOME",
    "BATON_NODE",
    "BATON_GROUP",
    "BATON_RELEASE",
    "BATON_ROLLOUT",
    "BATON_RELEASE_DIR",
    "BATON_STATE_DIR",
    "BATON_CENSUS",
    "BATON_CONFIG_DIR",
];

const NOTIFY_SOCKET: &str = "NOTIFY_SOCKET";

/// Where programs are on a Linux machine; what systemd gives its services.
const PATH_DEFAULT: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Enough of a wrong text to recognise it, however long it is.
const SHOWN_MAX_CHARS: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    fn env(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn only_a_name_in_braces_is_expanded() {
        let env = env(&[("PORT", "6379"), ("A_1", "x"), ("EMPTY", ""), ("NESTED", "${PORT}")]);
        for (text, want) in [
            ("", ""),
            ("plain", "plain"),
            ("http://127.0.0.1:${PORT}/health", "http://127.0.0.1:6379/health"),
            ("${PORT}${A_1}${EMPTY}", "6379x"),
            ("$PORT $$ $ 5$", "$PORT $$ $ 5$"),
            ("$${PORT}", "$6379"),
            ("${NESTED}", "${PORT}"),
            ("ä${A_1}ß", "äxß"),
            ("}{", "}{"),
        ] {
            assert_eq!(expand(text, &env).as_deref(), Ok(want), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_expanded_says_why() {
        let long = "x".repeat(EXPANDED_MAX_BYTES);
        let env = env(&[("PORT", "6379"), ("LONG", &long), ("ZERO", "a\0b")]);
        let no_name = "has a ${ that is not followed by a name (A-Z, a-z, 0-9, _) and }";
        for (text, want) in [
            (
                "a${NOPE}",
                "\"a${NOPE}\" names ${NOPE}, which is not set: set it in the service's env".into(),
            ),
            ("${", format!("\"${{\" {no_name}")),
            ("${PORT", format!("\"${{PORT\" {no_name}")),
            ("${}", format!("\"${{}}\" {no_name}")),
            ("${PORT:-1}", format!("\"${{PORT:-1}}\" {no_name}")),
            ("${${PORT}}", format!("\"${{${{PORT}}}}\" {no_name}")),
            (
                "a${LONG}",
                "\"a${LONG}\" becomes longer than 131071 bytes, the most that are allowed".into(),
            ),
            ("${ZERO}", "\"${ZERO}\" contains a zero byte".into()),
        ] {
            assert_eq!(expand(text, &env).map_err(|error| error.to_string()), Err(want), "{text}");
        }
        assert_eq!(expand("${LONG}", &env).map(|text| text.len()), Ok(EXPANDED_MAX_BYTES));
    }

    #[test]
    fn a_file_of_a_revision_is_rendered_or_says_which_line_cannot_be() {
        let env = env(&[("PORT", "6379"), ("NESTED", "${PORT}")]);
        for (text, want) in [
            ("port ${PORT}\n$host $$ $${PORT} 5$\n", "port 6379\n$host $ ${PORT} 5$\n"),
            ("${NESTED}", "${PORT}"),
            ("", ""),
        ] {
            assert_eq!(render("a.conf", text, &env).as_deref(), Ok(want), "{text}");
        }
        let why = render("a.conf", "x\n\ny ${NOPE}", &env).expect_err("not set");
        assert!(why.starts_with("a.conf, line 3, names ${NOPE}, which is not set"), "{why}");
        let many = "${PORT}".repeat(RENDERED_MAX_BYTES / 4 + 1);
        assert!(render("a", &many, &env).expect_err("too large").contains("becomes larger than"));
    }

    #[test]
    fn names_are_looked_for_in_everything_that_a_program_is_given() {
        let revision = |content: &str| {
            let file = baton_types::RevisionFile { content: content.to_owned(), mode: 0o640 };
            let files = BTreeMap::from([("a.conf".to_owned(), file)]);
            Revision { env: env(&[("MINE", "1")]), files }
        };
        let service = env(&[("PORT", "6379")]);
        let all = "${MINE} ${PORT} ${HOME} ${BATON_NODE} ${BATON_CONFIG_DIR}";
        assert_eq!(check_names(&revision(all), &service), Ok(()));
        for unknown in ["${NOPE}", "${NOTIFY_SOCKET}"] {
            assert!(check_names(&revision(unknown), &service).is_err(), "{unknown}");
        }
    }

    #[test]
    fn the_program_is_in_the_release_or_absolute() {
        let env = env(&[("BIN", "/usr/bin"), ("UP", "..")]);
        let check = |command: &[&str], want: Result<&[&str], ExpandError>| {
            let command: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
            let want = want.map(|words| words.iter().map(|word| (*word).to_owned()).collect());
            assert_eq!(argv(&command, &env, "/r/"), want, "{command:?}");
        };
        check(&["bin/a", "bin/b"], Ok(&["/r/bin/a", "bin/b"]));
        check(&["/bin/sh", "-c"], Ok(&["/bin/sh", "-c"]));
        check(&["${BIN}/env"], Ok(&["/usr/bin/env"]));
        check(&["a..b"], Ok(&["/r/a..b"]));
        check(&["../a"], Err(ExpandError::Outside("../a".to_owned())));
        check(&["${UP}/a"], Err(ExpandError::Outside("../a".to_owned())));
        check(&[], Err(ExpandError::NoProgram));
        check(&["", "a"], Err(ExpandError::NoProgram));
    }
}
