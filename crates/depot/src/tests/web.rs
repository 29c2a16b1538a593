//! The same depot behind a web server.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use super::*;
use crate::DepotError;

/// Serves `root` over HTTP/1.1, one connection after the other, as long as the test runs. `cut`
/// bytes of each archive are kept back although they were announced.
fn serve(root: PathBuf, cut: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let base = format!("http://{}", listener.local_addr().expect("an address"));
    thread::spawn(move || {
        for connection in listener.incoming() {
            answer(connection.expect("a connection"), &root, cut);
        }
    });
    base
}

fn answer(mut connection: TcpStream, root: &Path, cut: usize) {
    let mut reader = BufReader::new(connection.try_clone().expect("cloned"));
    let mut request = String::new();
    reader.read_line(&mut request).expect("a request");
    let mut line = String::new();
    while reader.read_line(&mut line).expect("a header") > 2 {
        line.clear();
    }
    let path = request.split(' ').nth(1).expect("a path").trim_start_matches('/').to_owned();
    let (status, body) = match fs::read(root.join(&path)) {
        _ if path.contains("broken") => ("503 Service Unavailable", vec![]),
        Ok(body) => ("200 OK", body),
        Err(_) => ("404 Not Found", b"not here".to_vec()),
    };
    let sent = if path.contains("archives/") { body.len() - cut } else { body.len() };
    let head =
        format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    // The client may have gone away: that is its business.
    let _gone =
        connection.write_all(head.as_bytes()).and_then(|()| connection.write_all(&body[..sent]));
}

#[test]
fn a_web_depot_is_read_like_a_folder() {
    let world = World::new();
    let release = world.publish("1");
    let stable = name("stable");
    let web = Depot::open_plain_http(&serve(world.path("depot"), 0));
    let read = || web.read_channel(&world.trusted, None, &name("app"), &stable);
    assert!(matches!(read(), Err(DepotError::NothingPromoted { .. })));
    world.depot.promote(&id("1"), &stable, &world.key, false).expect("promoted");
    assert_eq!(read().expect("read").entries[0].release, release);
    assert_eq!(web.find(&world.trusted, &id("1")).expect("found"), release);
    assert!(matches!(web.find(&world.trusted, &id("2")), Err(DepotError::UnknownRelease { .. })));
    world.store.fetch(&web, &world.trusted, &release).expect("fetched");
    world.store.unpack(&release.digest).expect("unpacked");
    assert_eq!(web.list().expect("listed"), world.depot.list().expect("listed"));
    assert_eq!(web.verify(&world.trusted).expect("verified").faults, Vec::<String>::new());
}

#[test]
fn what_a_web_server_cannot_give_is_a_fault_of_the_surroundings() {
    let world = World::new();
    let release = world.publish("1");
    let check = |result: Result<(), DepotError>, part: &str| {
        let error = result.expect_err(part);
        assert!(error.is_environment() && error.to_string().contains(part), "{error}");
    };
    let cut = Depot::open_plain_http(&serve(world.path("depot"), 5));
    check(world.store.fetch(&cut, &world.trusted, &release).map(|_| ()), "cannot reach http://");
    assert_eq!(world.held(), Vec::<String>::new());
    let broken = Depot::open_plain_http(&format!("{}/broken", serve(world.path("depot"), 0)));
    check(broken.find(&world.trusted, &id("1")).map(|_| ()), "the server answers 503");
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let closed = format!("http://{}", listener.local_addr().expect("an address"));
    drop(listener);
    check(Depot::open_plain_http(&closed).list().map(|_| ()), "cannot reach http://127.0.0.1");
    // A real https:// depot never falls back to plain HTTP.
    let https = Depot::open(&closed.replace("http://", "https://").parse().expect("a URL"));
    check(https.list().map(|_| ()), "cannot reach https://127.0.0.1");
}
