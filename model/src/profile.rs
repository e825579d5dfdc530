//! A channel's own profile.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChannelProfile {
    pub name: Option<String>,
    pub about: Option<String>,
    #[schemars(extend("format" = "uri"))]
    pub picture_url: Option<String>,
}
