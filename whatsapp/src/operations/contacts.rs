//! Requests about people.

use std::slice::from_ref;

use model::contact::ContactCheck;
use wacore_binary::Jid;

use super::{Answered, Asked, outcome};
use crate::inbound::message::address;

impl Asked<'_> {
    /// Checks which numbers are registered. Some countries' numbers have two spellings, and the network answers with
    /// its own: a number that is missing in the answer is asked for alone, so that the answer belongs to it.
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
