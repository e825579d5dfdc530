//! Every error code, and the test that provokes it. Codes that no other test provokes are provoked here.

use model::error::ErrorCode;
use serde_json::json;
use tests::cluster::{Cluster, Options};
use tests::http::{client, string};
use tests::sources::Sources;
use tests::tenant::{CONNECT, Tenant, number, text, wait_status};

/// How a code is provoked.
enum Provoked {
    /// By the test with this name.
    By(&'static str),
    /// By no test, for this reason.
    NotYet(&'static str),
}

use Provoked::{By, NotYet};

const TABLE: &[(ErrorCode, Provoked)] = &[
    (ErrorCode::AuthMissing, By("every_way_to_fail_authentication_has_its_code")),
    (ErrorCode::AuthMalformed, By("every_way_to_fail_authentication_has_its_code")),
    (ErrorCode::AuthInvalid, By("every_way_to_fail_authentication_has_its_code")),
    (ErrorCode::AuthExpired, By("every_way_to_fail_authentication_has_its_code")),
    (ErrorCode::AuthRevoked, By("every_way_to_fail_authentication_has_its_code")),
    (ErrorCode::AuthNoEmail, By("a_session_without_a_confirmed_address_reaches_nothing")),
    (ErrorCode::AuthBackendUnavailable, By("a_node_that_may_have_missed_a_revocation_refuses_by_itself")),
    (ErrorCode::ChannelNotFound, By("what_is_not_there_is_not_found")),
    (ErrorCode::ChannelAccessDenied, By("a_key_of_one_channel_stays_in_it")),
    (ErrorCode::ChannelScopedKey, By("a_key_of_one_channel_stays_in_it")),
    (ErrorCode::InsufficientScope, By("a_key_does_what_its_scopes_say_and_no_more")),
    (ErrorCode::ChannelUnavailable, By("every_lifecycle_call_answers_as_the_status_demands")),
    (ErrorCode::InvalidLifecycleTransition, By("every_lifecycle_call_answers_as_the_status_demands")),
    (ErrorCode::PairCodeUnavailable, By("every_lifecycle_call_answers_as_the_status_demands")),
    (ErrorCode::PairCodeFailed, By("a_network_that_refuses_pair_codes_is_told_apart")),
    (ErrorCode::NoQr, By("every_lifecycle_call_answers_as_the_status_demands")),
    (ErrorCode::NotDisabled, By("every_lifecycle_call_answers_as_the_status_demands")),
    (ErrorCode::ConcurrentModification, By("settings_change_and_are_reset_in_every_status")),
    (ErrorCode::NotConnected, By("every_lifecycle_call_answers_as_the_status_demands")),
    (ErrorCode::PlanChannelLimit, By("a_plan_that_ran_out_stops_sends_and_new_channels_but_no_reads")),
    (ErrorCode::PlanLimit, By("a_quota_that_is_used_up_is_refused_with_its_figures_until_the_operator_raises_it")),
    (ErrorCode::RateLimited, By("a_customer_has_its_burst_over_all_nodes_together_and_is_told_what_is_left")),
    (ErrorCode::WorkerAtCapacity, By("a_node_without_a_free_slot_says_when_to_come_back")),
    (ErrorCode::StorageFull, By("a_node_with_little_room_refuses_media_and_large_bodies_and_takes_sends")),
    (ErrorCode::TrialExpired, By("a_plan_that_ran_out_stops_sends_and_new_channels_but_no_reads")),
    (ErrorCode::PaymentOverdue, By("a_plan_that_ran_out_stops_sends_and_new_channels_but_no_reads")),
    (ErrorCode::SseConnectionLimit, By("an_account_has_ten_streams_over_all_nodes_and_a_closed_one_frees_its_place")),
    (ErrorCode::WebhookEndpointNotFound, By("what_is_not_there_is_not_found")),
    (ErrorCode::MediaGone, By("deleted_media_is_gone_for_every_link_to_it")),
    (ErrorCode::MediaTokenExpired, By("bytes_end_with_their_retention_and_damaged_ones_are_never_served")),
    (ErrorCode::MediaTokenTampered, By("a_link_that_was_changed_is_refused")),
    (ErrorCode::MediaTokenMalformed, By("a_link_that_was_changed_is_refused")),
    (ErrorCode::MediaTooLarge, By("an_upload_that_breaks_a_rule_is_refused_and_leaves_nothing")),
    (ErrorCode::MediaFetchFailed, By("what_cannot_be_fetched_or_sent_leaves_nothing_behind")),
    (ErrorCode::MediaFetchBlocked, By("what_cannot_be_fetched_or_sent_leaves_nothing_behind")),
    (ErrorCode::MessageNotFound, By("a_message_tells_its_deliveries_and_an_id_in_two_channels_needs_one_named")),
    (ErrorCode::ChatNotFound, By("a_deleted_chat_is_gone_until_something_is_said_there")),
    (ErrorCode::ContactNotFound, By("somebody_new_is_found_at_the_network_and_nobody_is_not")),
    (ErrorCode::InvalidRequest, By("each_rule_of_a_channels_body_is_named")),
    (ErrorCode::NotFound, By("what_is_not_there_is_not_found")),
    (ErrorCode::BadRequest, By("a_request_that_is_wrong_as_a_whole_is_told_so")),
    (ErrorCode::NoOp, By("every_lifecycle_call_answers_as_the_status_demands")),
    (ErrorCode::Other, By("a_send_that_the_network_refuses_is_told_to_the_caller_and_ends_failed")),
    (ErrorCode::InternalError, NotYet("whatever provokes it from outside is a fault to be mended")),
    (ErrorCode::UndeliverableRecipient, By("a_recipient_that_cannot_be_reached_is_refused_with_its_reason")),
    (ErrorCode::NotImplemented, By("what_is_not_there_is_not_found")),
    (ErrorCode::PayloadTooLarge, By("a_request_that_is_wrong_as_a_whole_is_told_so")),
    (ErrorCode::UriTooLong, By("what_the_http_server_refuses_by_itself_bears_the_envelope")),
    (ErrorCode::HeadersTooLarge, By("what_the_http_server_refuses_by_itself_bears_the_envelope")),
    (ErrorCode::OutcomeUnknown, By("a_send_that_is_ended_fails_with_what_is_known_of_it")),
];

#[test]
fn every_error_code_is_provoked_by_a_test_that_exists() {
    let sources = Sources::read();
    for code in ErrorCode::ALL {
        let entries: Vec<_> = TABLE.iter().filter(|(listed, _)| *listed == code).collect();
        assert_eq!(entries.len(), 1, "{code} stands in the table once");
        let is_expected = sources.quote(code.as_str());
        match &entries[0].1 {
            By(test) => {
                assert!(sources.have_test(test), "{code}: no test is called {test}");
                assert!(is_expected, "{code}: no test expects it");
            }
            NotYet(reason) => assert!(!is_expected, "{code} is expected by a test now, and not listed: {reason}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_network_that_refuses_pair_codes_is_told_apart() {
    let cluster = Cluster::start(Options::nodes(1)).await;
    let tenant = Tenant::new(&cluster).await;
    tenant.simulator().faults(json!({ "refuse_pairing": "code" })).await;
    let channel = tenant.channel("Refused").await;
    let body = json!({ "phone_number": number() });
    let answer = tenant.any().post(&format!("/v1/channels/{channel}/pair-code"), body).await;
    assert!(answer.expect_error(502, "pair_code_failed").is_object(), "it says what the network said");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_without_a_free_slot_says_when_to_come_back() {
    let cluster = Cluster::start(Options::nodes(1).arg("--set=node.max_channels=1")).await;
    let tenant = Tenant::new(&cluster).await;
    let first = tenant.paired("The only one").await;
    let channel = tenant.channel("One too many").await;
    let answer = tenant.any().get(&format!("/v1/channels/{channel}/qr")).await;
    answer.expect_error(503, "worker_at_capacity");
    assert_eq!(answer.retry_after(), 5);
    // Requests that the status does not permit need no slot.
    let act = async |what: &str| tenant.any().act(&format!("/v1/channels/{channel}/{what}")).await;
    act("connect").await.expect_error(503, "worker_at_capacity");
    act("restart").await.expect_error(409, "invalid_lifecycle_transition");
    act("disable").await.expect(202);
    act("connect").await.expect_error(409, "channel_unavailable");

    // A channel that should run waits for a slot on its node.
    let api = tenant.any();
    act("enable").await.expect(202);
    api.act(&first.path("/disable")).await.expect(202);
    act("connect").await.expect(202);
    api.act(&first.path("/enable")).await.expect(202);
    api.post(&first.path("/messages"), text("15551234567", "hi")).await.expect_error(409, "not_connected");
    act("disconnect").await.expect(202);
    wait_status(&api, &first.id, "connected", CONNECT).await;
    let history = api.get(&first.path("/status-history?limit=4")).await.expect(200);
    let reasons: Vec<_> = history["data"].as_array().unwrap().iter().map(|change| string(&change["reason"])).collect();
    assert_eq!(reasons, ["login_ok", "connect_requested", "admin", "admin"], "{history}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_without_a_confirmed_address_reaches_nothing() {
    let cluster = Cluster::start(Options::nodes(1)).await;
    let api = cluster.api(cluster.node_ids()[0], &client());
    let body = json!({ "email": "new@example.com", "password": "a password of length", "name": "Newcomer" });
    let made = api.post("/v1/auth/signup", body).await.expect(201);
    api.with_key(&string(&made["access_token"])).get("/v1/channels").await.expect_error(403, "auth_no_email");
}
