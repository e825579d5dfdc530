//! What groups, communities and newsletters have alike: a number, which is the local part of an address, and a place
//! among all of their kind.

/// Declares the number of one, and all there are, by their numbers. Who names one that is not there is told `$missing`.
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
                // An address of one that cannot exist still names one.
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
            /// Leaves numbers out that a process may have given away before it was killed.
            pub fn leave_out(&mut self, numbers: u64) {
                self.next += numbers;
            }

            /// The number of a new one.
            fn next_id(&mut self) -> $id {
                let id = $id(self.next);
                self.next += 1;
                id
            }

            /// One that somebody names who wants to change it.
            pub fn get_mut(&mut self, id: $id) -> Allowed<&mut $one> {
                self.$of.get_mut(&id).ok_or($missing)
            }
        }
    };
}

pub(super) use gathering;
