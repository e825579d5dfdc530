//! The used part of etcd's gRPC service `etcdserverpb.KV`, by hand: a few fields with their numbers in `rpc.proto`. The
//! decoder skips all other fields of responses.

use anyhow::{Context, ensure};
use hyper::http::uri::PathAndQuery;
use prost::Message;
use tonic::Request;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use super::CALL;

const PUT: PathAndQuery = PathAndQuery::from_static("/etcdserverpb.KV/Put");
const RANGE: PathAndQuery = PathAndQuery::from_static("/etcdserverpb.KV/Range");

#[derive(Clone, PartialEq, Message)]
struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct PutResponse {
    #[prost(message, optional, tag = "1")]
    header: Option<ResponseHeader>,
}

#[derive(Clone, PartialEq, Message)]
struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct RangeResponse {
    #[prost(message, repeated, tag = "2")]
    kvs: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "5")]
    value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct ResponseHeader {
    #[prost(int64, tag = "3")]
    revision: i64,
}

/// A connection to one member.
#[derive(Clone)]
pub struct Kv {
    grpc: Grpc<Channel>,
}

impl Kv {
    /// Connects at the first use, and reconnects after failures.
    ///
    /// # Errors
    /// When `url` is invalid.
    pub fn new(url: &str) -> anyhow::Result<Self> {
        let endpoint = Endpoint::from_shared(url.to_owned())?.tcp_nodelay(true).connect_timeout(CALL).timeout(CALL);
        Ok(Self { grpc: Grpc::new(endpoint.connect_lazy()) })
    }

    /// Writes a value; returns when a majority has it on disk.
    ///
    /// # Errors
    /// When the member refuses or does not answer.
    pub async fn put(&mut self, key: &[u8], value: &[u8]) -> anyhow::Result<()> {
        let request = PutRequest { key: key.to_vec(), value: value.to_vec() };
        let answer: PutResponse = self.call(PUT, request).await?;
        ensure!(answer.header.is_some_and(|header| header.revision > 0), "a put was answered without a revision");
        Ok(())
    }

    /// Reads a value, linearizably.
    ///
    /// # Errors
    /// When the member refuses or does not answer.
    pub async fn get(&mut self, key: &[u8]) -> anyhow::Result<Option<Vec<u8>>> {
        let answer: RangeResponse = self.call(RANGE, RangeRequest { key: key.to_vec() }).await?;
        Ok(answer.kvs.into_iter().next().map(|pair| pair.value))
    }

    async fn call<Q, A>(&mut self, path: PathAndQuery, request: Q) -> anyhow::Result<A>
    where
        Q: Message + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        self.grpc.ready().await.context("etcd takes no connection")?;
        let answer = self.grpc.unary(Request::new(request), path, ProstCodec::<Q, A>::default()).await?;
        Ok(answer.into_inner())
    }
}
