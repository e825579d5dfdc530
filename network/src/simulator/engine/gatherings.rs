//! What groups, communities and newsletters have in common: a number, which is the local part of an address, and a map
//! of all of their kind.

/// Declares the number type of a kind and the map of all. Access to a missing one is refused with `$missing`.
macro_rules! gathering {
    (
        $(#[$number:meta])* $id:ident in $domain:ident by $address:ident;
        $(#[$about:meta])* $all:ident { $of:ident: $one:ident } from $first:ident or $missing:ident
    ) => {
        $(#[$number])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $id(u64);

        impl $id {
            pub fn of_address(address: &Address, suffixes: &Suffixes) -> Option<Self> {
                // The address of one that cannot exist still parses, so that it can be refused as missing.
                (address.domain() == suffixes.$domain).then(|| Self(address.local().parse().unwrap_or(0)))
            }

            pub fn address(self, suffixes: &Suffixes) -> Address {
                suffixes.$address(&self.0.to_string())
            }
        }

        $(#[$about])*
        #[derive(Clone, Debug, Serialize, Deserialize)]
        pub struct $all {
            $of: BTreeMap<$id, $one>,
            next: u64,
        }

        impl Default for $all {
            fn default() -> Self {
                Self { $of: BTreeMap::new(), next: $first }
            }
        }

        impl $all {
            /// Skips numbers that a killed process may have assigned.
            pub fn leave_out(&mut self, numbers: u64) {
                self.next += numbers;
            }

            /// Allocates a number.
            fn next_id(&mut self) -> $id {
                let id = $id(self.next);
                self.next += 1;
                id
            }

            /// One of the kind, for a change.
            pub fn get_mut(&mut self, id: $id) -> Allowed<&mut $one> {
                self.$of.get_mut(&id).ok_or($missing)
            }
        }
    };
}

pub(super) use gathering;
