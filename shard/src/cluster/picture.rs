//! Pictures for groups and profiles, given by URL or uploaded.

use model::error::CallError;
use model::id::CustomerId;
use model::media::LARGEST_PICTURE;
use network::operation::picture::Picture;

use super::{CallContext, Cluster};
use crate::media::fetch::FetchError;
use crate::media::picture::too_large;
use crate::media::spool::{SpoolError, Spooled};

impl Cluster {
    /// Fetches a picture by its URL and converts it for the network. `field` names the URL in the caller's body.
    ///
    /// # Errors
    /// `media_fetch_failed`, `media_fetch_blocked`, `media_too_large` above 5 MB, and `invalid_request` with an issue
    /// at `field` for bytes that are not a picture.
    pub async fn picture_at(
        &self,
        customer: CustomerId,
        url: &str,
        field: &str,
        context: &CallContext,
    ) -> Result<Picture, CallError> {
        let fetched = self.fetch_media(customer, url, context).await.map_err(|error| match error {
            FetchError::Spool(SpoolError::TooLarge { size }) => too_large(size),
            error => error.told(url, field),
        })?;
        self.picture_of(customer, fetched.spooled, field).await
    }

    /// Converts an uploaded picture for the network.
    ///
    /// # Errors
    /// `media_too_large` above 5 MB, `invalid_request` with an issue at `field` for bytes that are not a picture, 503
    /// when too many conversions wait.
    pub async fn picture_of(&self, customer: CustomerId, spooled: Spooled, field: &str) -> Result<Picture, CallError> {
        if spooled.size > LARGEST_PICTURE {
            return Err(too_large(spooled.size));
        }
        self.media().cutter.cut(customer, spooled).await.map_err(|unfit| match unfit {
            Some(unfit) => unfit.violation().at(&[field]),
            None => CallError::worker_at_capacity(),
        })
    }
}
