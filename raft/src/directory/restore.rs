//! Adapts the directory of a backup to the new cluster that starts with it: everything of customers stays, everything
//! of the old nodes is removed.

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

/// The new cluster: one node.
pub struct NewCluster {
    pub cluster_id: Uuid,
    pub node: NodeRecord,
    /// Time of the restore.
    pub at: Timestamp,
    /// For the audit log: when the backup was taken, and of which cluster.
    pub taken_at: Timestamp,
    pub taken_of: Uuid,
}

impl NewCluster {
    /// The value that replaces a pair of the directory; `None` if the pair belonged to the old nodes.
    ///
    /// # Errors
    /// [`Foreign`] when this release cannot read the record.
    pub fn adapted(&self, key: &[u8], value: Vec<u8>) -> Result<Option<Vec<u8>>, Foreign> {
        let is_of = |table: keys::Table| key.starts_with(&table.range().0);
        let of_old_nodes = [keys::NODES, keys::REMOVED_NODES, keys::JOIN_TOKENS];
        // The new node brings its own authority: certificates of the old one are worthless here.
        if key == keys::AUTHORITY || key == keys::LAYOUT || of_old_nodes.into_iter().any(is_of) {
            return Ok(None);
        }
        if key == keys::CLUSTER {
            let taken: ClusterRecord = read(&value)?;
            // The states of the shards were exported earlier, and may hold values that were resealed since.
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

    /// Pairs that are added to the directory.
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

/// The cluster's record, if the pair is that.
///
/// # Errors
/// [`Foreign`] when this release cannot read the record.
pub fn cluster_record(key: &[u8], value: &[u8]) -> Result<Option<ClusterRecord>, Foreign> {
    (key == keys::CLUSTER).then(|| read(value)).transpose()
}

/// The master key that seals a customer's data key, if the pair is a customer's record.
///
/// # Errors
/// [`Foreign`] when this release cannot read the record.
pub fn master_of_customer(key: &[u8], value: &[u8]) -> Result<Option<MasterKeyId>, Foreign> {
    let customer: Option<CustomerRecord> =
        key.starts_with(&keys::CUSTOMERS.range().0).then(|| read(value)).transpose()?;
    Ok(customer.map(|customer| customer.data_key.master))
}
