//! A real S3-compatible server of a folder, in which each folder is a bucket.

use std::path::Path;

use hyper_util::rt::TokioIo;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use s3s_fs::FileSystem;
use tokio::net::TcpListener;

/// The credentials that the server accepts.
pub const ACCESS_KEY_ID: &str = "the-key";
pub const SECRET_ACCESS_KEY: &str = "the-secret";

/// Serves a folder's folders as buckets until the test ends, and returns the URL.
pub async fn serve(folder: &Path) -> String {
    let files = FileSystem::new(folder).unwrap_or_else(|error| panic!("{}: {error:?}", folder.display()));
    let mut service = S3ServiceBuilder::new(files);
    service.set_auth(SimpleAuth::from_single(ACCESS_KEY_ID, SECRET_ACCESS_KEY));
    let service = service.build();
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port is free");
    let url = format!("http://{}", listener.local_addr().expect("a bound socket has an address"));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let connection =
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service.clone());
            tokio::spawn(connection);
        }
    });
    url
}
