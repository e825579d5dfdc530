//! Phones upload media again when a linked device asks for a file that the network has lost.

use buffa::Message as _;
use wacore::crypto::hkdf_sha256_into;
use wacore::libsignal::crypto::aes_256_gcm_encrypt;
use wacore::media_retry::decrypt_media_retry_notification;
use wacore_binary::{Node, NodeRef};
use waproto::whatsapp as wa;
use waproto::whatsapp::media_retry_notification::ResultType;

use super::attachment::key_and_path;
use crate::number::DeviceAddress;
use crate::stanza::{bytes, element, parent};
use crate::state::State;

/// Label for deriving the keys of these responses.
const KEY_OF: &[u8] = b"WhatsApp Media Retry Notification";

impl State {
    /// Handles a device's `<receipt type="server-error">`. A phone that is off does not respond.
    pub fn phone_gives_media_again(&mut self, by: DeviceAddress, id: &str, stanza: &NodeRef<'_>) {
        let Some(account) = self.accounts.get(&by.number).filter(|account| account.online) else { return };
        let phone = &account.phone;
        let message = phone.inbox.by_id(id).map(|item| &item.message).or_else(|| phone.written(id));
        let attachment = message.and_then(key_and_path).map(|(key, path)| (key.to_vec(), path.to_owned()));
        let sealed = |name| {
            let encrypt = stanza.get_optional_child("encrypt")?;
            encrypt.get_optional_child(name)?.content_bytes().map(<[u8]>::to_vec)
        };
        let answer = attachment.and_then(|(key, path)| {
            // Decrypting proves that the device knows the message.
            decrypt_media_retry_notification(&key, id, &sealed("enc_iv")?, &sealed("enc_p")?).ok()?;
            granted(&key, id, self.files.again(&path)?)
        });
        // Error 2: the phone does not have the media.
        let answer = answer.unwrap_or_else(|| element("error").attr("code", 2).build());
        let mut notice = element("notification")
            .attr("from", by.number.pn())
            .attr("id", id)
            .attr("type", "mediaretry")
            .attr("t", self.seconds());
        notice = notice.children([answer].into_iter().chain(stanza.get_optional_child("rmr").map(NodeRef::to_owned)));
        self.enqueue(by, "notification", id, notice.build());
    }
}

fn granted(media_key: &[u8], id: &str, path: String) -> Option<Node> {
    let told = wa::MediaRetryNotification {
        stanza_id: Some(id.to_owned()),
        direct_path: Some(path),
        result: Some(ResultType::SUCCESS),
        ..Default::default()
    };
    let mut key = [0; 32];
    hkdf_sha256_into(media_key, None, KEY_OF, &mut key).ok()?;
    let iv: [u8; 12] = rand::random();
    let mut sealed = Vec::new();
    aes_256_gcm_encrypt(&key, &iv, id.as_bytes(), &told.encode_to_vec(), &mut sealed).ok()?;
    Some(parent("encrypt", [bytes("enc_p", sealed), bytes("enc_iv", iv)]))
}
