//! The directory's part of rotating the customers' data keys: its leader gives each customer a new key, reseals the
//! secrets of endpoints, and drops the former keys once every shard's owner has found nothing more that they sealed.

use model::id::EndpointId;
use model::seal::SealError;
use model::time::Timestamp;
use raft::directory::records::EndpointRecord;
use raft::directory::secrets::{DataKeyRotation, Resealed, ResealedEndpoint, Rewrapped, SecretsCommand};
use raft::directory::state::DirectoryState;

use super::{STEP, StepError};
use crate::secrets::{Secrets, headers_purpose, secret_purpose};

/// How long a secret that was sealed with a former key may take to reach the log, in milliseconds.
const UNDER_WAY: i64 = 30_000;

/// The number of endpoints that are checked in one step.
const ENDPOINTS: usize = 100;

/// Progress of the check of endpoints, and its rotation. The next leader starts over.
#[derive(Default)]
pub struct Looked {
    of: Option<Timestamp>,
    /// The ids of the endpoints that are still to be checked, once the check has begun.
    left: Option<Vec<EndpointId>>,
    found: bool,
    /// Whether a complete check has found nothing.
    clean: bool,
}

/// The next step; `None` when there is nothing to do now.
pub fn next(
    state: &DirectoryState,
    secrets: &Secrets,
    now: Timestamp,
    looked: &mut Looked,
) -> Result<Option<SecretsCommand>, StepError> {
    let Some(rotation) = state.running_data_keys() else { return Ok(None) };
    let Some(changed_at) = rotation.changed_at else { return change(state, secrets, rotation).map(Some) };
    if looked.of != Some(rotation.began_at) {
        *looked = Looked { of: Some(rotation.began_at), ..Looked::default() };
    }
    if !looked.clean {
        // After this time, no secret sealed with a former key can arrive any more.
        return if now.0 >= changed_at.0 + UNDER_WAY { endpoints(state, secrets, looked) } else { Ok(None) };
    }
    let may_go = rotation.resealed_at.is_some_and(|at| now >= at.plus(secrets.keep_former));
    if !may_go {
        return Ok(None);
    }
    let customers: Vec<_> = state.with_former_data_key().take(STEP).map(|customer| customer.id).collect();
    Ok(Some(match customers.is_empty() {
        true => SecretsCommand::EndDataKeys,
        false => SecretsCommand::DropDataKeys { customers },
    }))
}

fn change(state: &DirectoryState, secrets: &Secrets, rotation: &DataKeyRotation) -> Result<SecretsCommand, StepError> {
    let cluster = state.cluster.as_ref().map(|cluster| cluster.master()).ok_or(SealError::OtherMasterKey)?;
    let customers = state.customers_to_change(rotation.began_at, STEP);
    if customers.is_empty() {
        return Ok(SecretsCommand::DataKeysChanged);
    }
    let changed = customers
        .into_iter()
        .map(|customer| secrets.new_data_key(cluster, customer.id).map(|key| Rewrapped { customer: customer.id, key }));
    Ok(SecretsCommand::ChangeDataKeys { customers: changed.collect::<Result<_, _>>()? })
}

/// Checks some endpoints, and reseals what former keys have sealed.
fn endpoints(
    state: &DirectoryState,
    secrets: &Secrets,
    looked: &mut Looked,
) -> Result<Option<SecretsCommand>, StepError> {
    let left = looked.left.get_or_insert_with(|| state.endpoints.keys().copied().collect());
    let kept = left.len().saturating_sub(ENDPOINTS);
    let known = left[kept..].iter().filter_map(|id| state.endpoints.get(id));
    let anew = known.filter_map(|endpoint| resealed(state, secrets, endpoint).transpose());
    // If one secret cannot be judged, the whole part is checked again.
    let mut anew: Vec<ResealedEndpoint> = anew.collect::<Result<_, _>>()?;
    left.truncate(kept);
    if anew.len() > STEP {
        // Endpoints beyond one step are checked again.
        left.extend(anew.drain(STEP..).map(|endpoint| endpoint.id));
    }
    if anew.is_empty() && left.is_empty() {
        looked.clean = !looked.found;
        (looked.left, looked.found) = (None, false);
    }
    looked.found |= !anew.is_empty();
    Ok((!anew.is_empty()).then_some(SecretsCommand::ResealEndpoints(anew)))
}

/// Those secrets of an endpoint that a former key has sealed, resealed.
fn resealed(
    state: &DirectoryState,
    secrets: &Secrets,
    endpoint: &EndpointRecord,
) -> Result<Option<ResealedEndpoint>, SealError> {
    let customer = state.customers.get(&endpoint.customer_id).filter(|customer| customer.former_data_key.is_some());
    let Some(customer) = customer else { return Ok(None) };
    let anew = |sealed: &Option<Vec<u8>>, purpose: String| match sealed {
        Some(was) => {
            let sealed = secrets.reseal_found(customer, &purpose, was)?;
            Ok(sealed.map(|sealed| Resealed { was: was.clone(), sealed }))
        }
        None => Ok(None),
    };
    let secret = anew(&endpoint.secret, secret_purpose(endpoint.id))?;
    let headers = anew(&endpoint.sealed_headers, headers_purpose(endpoint.id))?;
    let found = secret.is_some() || headers.is_some();
    Ok(found.then_some(ResealedEndpoint { id: endpoint.id, secret, headers }))
}
