//! What becomes of the directory of a backup when a new cluster begins with it: all that is of customers stays, all that
//! is of the old nodes goes.

use std::collections::BTreeMap;

use model::format::Foreign;
use model::id::AuditId;
use model::seal::MasterKeyId;
use model::time::Timestamp;
use uuid::Uuid;

use super::keys;
use super::records::{AuditActor, AuditEntry, AuditTarget, ClusterRecord, CustomerRecord, NodeRecord, PlacementRecord};
use super::secrets::DataKeyRotation;
use crate::backup::file::Pair;
use crate::record::{encode, read};

/// The cluster that begins: one node.
pub struct NewCluster {
    pub cluster_id: Uuid,
    pub node: NodeRecord,
    /// When it was restored.
    pub at: Timestamp,
    /// For the audit log: when the backup was taken, and of which cluster.
    pub taken_at: Timestamp,
    pub taken_of: Uuid,
}

impl NewCluster {
    /// What stands in the place of a pair of the directory; nothing, for what was the old nodes'.
    ///
    /// # Errors
    /// [`Foreign`] for what this release cannot read.
    pub fn adapted(&self, key: &[u8], value: Vec<u8>) -> Result<Option<Vec<u8>>, Foreign> {
        let is_of = |table: keys::Table| key.starts_with(&table.range().0);
        let of_old_nodes = [keys::NODES, keys::REMOVED_NODES, keys::JOIN_TOKENS];
        // The new node brings an authority of its own: certificates of the old one are worth nothing here.
        if key == keys::AUTHORITY || key == keys::LAYOUT || of_old_nodes.into_iter().any(is_of) {
            return Ok(None);
        }
        if key == keys::CLUSTER {
            let taken: ClusterRecord = read(&value)?;
            // The states of shards were taken before, and may hold what has been sealed anew since.
            let data_keys = taken.data_keys.clone().map(DataKeyRotation::begun_again);
            let record = ClusterRecord { cluster_id: self.cluster_id, data_keys, ..taken };
            return Ok(Some(encode(&record)));
        }
        if is_of(keys::PLACEMENTS) {
            let place: PlacementRecord = read(&value)?;
            let (replicas, leader) = (vec![self.node.id], self.node.id);
            return Ok(Some(encode(&PlacementRecord { replicas, leader, formed: true, settled: true, ..place })));
        }
        Ok(Some(value))
    }

    /// What is new in the directory.
    pub fn additions(&self) -> [Pair; 2] {
        let id = AuditId::new();
        let target = AuditTarget::new("cluster", self.cluster_id, "cluster");
        let entry = AuditEntry {
            details: BTreeMap::from([
                ("backup_of".to_owned(), self.taken_of.to_string()),
                ("backup_taken_at".to_owned(), self.taken_at.to_string()),
            ]),
            ..AuditEntry::done(id, "cluster.restored", AuditActor::of_kind("operator"), target, self.at)
        };
        [(keys::node(self.node.id), encode(&self.node)), (keys::audit(None, self.at, id), encode(&entry))]
    }
}

/// The cluster of a directory, when the pair is its record.
///
/// # Errors
/// [`Foreign`] for a record that this release cannot read.
pub fn cluster_record(key: &[u8], value: &[u8]) -> Result<Option<ClusterRecord>, Foreign> {
    (key == keys::CLUSTER).then(|| read(value)).transpose()
}

/// The master key that a customer's data key is sealed under, when the pair is its record.
///
/// # Errors
/// [`Foreign`] for a record that this release cannot read.
pub fn master_of_customer(key: &[u8], value: &[u8]) -> Result<Option<MasterKeyId>, Foreign> {
    let customer: Option<CustomerRecord> =
        key.starts_with(&keys::CUSTOMERS.range().0).then(|| read(value)).transpose()?;
    Ok(customer.map(|customer| customer.data_key.master))
}
