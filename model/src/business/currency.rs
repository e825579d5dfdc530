//! Currency codes of ISO 4217.

use serde_json::{Value, json};

use crate::field::{Judged, rule};
use crate::issue::{IssueCode, Violation};

/// Codes of currencies in circulation, without precious metals, funds and test codes.
const CODES: &str = "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD \
    CAD CDF CHF CLP CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD \
    HKD HNL HTG HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD \
    MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG \
    QAR RON RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD \
    TZS UAH UGX USD UYU UZS VED VES VND VUV WST XAF XCD XCG XOF XPF YER ZAR ZMW ZWG";

/// A currency's code.
pub fn currency(value: &Value) -> Judged<String> {
    let codes = || CODES.split_ascii_whitespace();
    let text = rule::string(value, || json!({ "enum": codes().collect::<Vec<_>>() }))?;
    if codes().any(|code| code == text) {
        return Ok(text.to_owned());
    }
    Err(Violation::new(IssueCode::Format, "must be a currency of ISO 4217 such as EUR"))
}
