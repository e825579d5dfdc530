//! What is asked about people.

use std::slice::from_ref;

use model::contact::ContactCheck;
use wacore_binary::Jid;

use super::{Answered, Asked, outcome};
use crate::inbound::message::address;

impl Asked<'_> {
    /// Which numbers are registered. Those of some countries are written in two ways, and the network names somebody in its own: who
    /// is not found among the answers is asked about alone, so that the answer is about them.
    pub(super) async fn check(&self, phones: Vec<String>) -> Answered<Vec<ContactCheck>> {
        let contacts = self.client.contacts();
        let named: Vec<Jid> = phones.iter().map(|digits| Jid::pn(digits.as_str())).collect();
        let told = contacts.is_on_whatsapp(&named).await.map_err(outcome)?;
        let mut checks = Vec::with_capacity(phones.len());
        for (input, named) in phones.into_iter().zip(&named) {
            let of_it = told.iter().find(|told| told.jid == *named || told.pn_jid.as_ref() == Some(named));
            let found = match of_it {
                Some(found) => Some(found.clone()),
                None => contacts.is_on_whatsapp(from_ref(named)).await.map_err(outcome)?.pop(),
            };
            let Some(found) = found.filter(|found| found.is_registered) else {
                checks.push(ContactCheck { input, exists: false, id: None, lid: None, is_business: false });
                continue;
            };
            let names = [Some(&found.jid), found.pn_jid.as_ref(), found.lid.as_ref()];
            let phone = names.into_iter().flatten().find(|name| name.is_pn()).and_then(address);
            let lid = names.into_iter().flatten().find(|name| name.is_lid()).and_then(address);
            checks.push(ContactCheck { input, exists: true, id: phone, lid, is_business: found.is_business });
        }
        Ok(checks)
    }
}
