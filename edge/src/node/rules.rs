//! What a session may do before anybody logs in, and what its node announces (FEAT).

use super::arrival::Arrival;
use super::config::Anonymous;
use super::{Shared, adapt, checksum, data_listener, line, profile, stores, told_path, tree};
use crate::channels::Registry;
use crate::mover::TREE_MODULE;
use crate::sys::host::kernel_id;
use farline_core::gridftp::omission;
use farline_core::gridftp::server::{Logins, Rights, ServerConfig};

/// What the machine of a session that came as `arrival` says and allows.
pub(super) fn rules(shared: &Shared, arrival: &Arrival) -> ServerConfig {
    let is_secure = arrival.over_ssh || arrival.one_port.is_some();
    let logins = match shared.config.anonymous {
        _ if arrival.over_ssh => Logins::Anyone(Rights::Write),
        anonymous if shared.gsi.is_some() || !shared.config.identities.is_empty() => {
            Logins::Asked {
                anonymous: match anonymous {
                    Anonymous::None => None,
                    Anonymous::Read => Some(Rights::Read),
                    Anonymous::Write => Some(Rights::Write),
                },
            }
        }
        Anonymous::None => Logins::Asked { anonymous: None },
        Anonymous::Read => Logins::Anonymous(Rights::Read),
        Anonymous::Write => Logins::Anonymous(Rights::Write),
    };
    ServerConfig {
        banner: format!("Farline {} GridFTP server ready.", env!("CARGO_PKG_VERSION")),
        logins,
        features: [
            [tree::FEATURE, tree::CHECK_FEATURE, tree::ZEROS_FEATURE, adapt::FEATURE]
                .map(str::to_owned)
                .to_vec(),
            [
                data_listener::FEATURE,
                "FARLINE HELD",
                "FARLINE KEY",
                "FARLINE LIMIT",
                "FARLINE LIVELIMIT",
                omission::FEATURE,
                "FARLINE ORDER",
                told_path::FEATURE,
                "FARLINE RATE",
            ]
            .map(str::to_owned)
            .to_vec(),
            [tree::BACKUP_FEATURE, tree::CRC64_FEATURE, tree::LANDING_FEATURE, tree::LEAVE_FEATURE]
                .map(str::to_owned)
                .to_vec(),
            [
                tree::ATTRIBUTES_FEATURE,
                tree::BLOCK_FEATURE,
                tree::ONLY_FEATURE,
                tree::UNLANDED_FEATURE,
            ]
            .map(str::to_owned)
            .to_vec(),
            kernel_id().map(|id| format!("FARLINE HOST {id}")).into_iter().collect(),
            shared
                .config
                .has_third_party()
                .then(|| "FARLINE THIRDPARTY".to_owned())
                .into_iter()
                .collect(),
            arrival
                .certificate
                .iter()
                .map(|certificate| format!("FARLINE TLS {}", certificate.fingerprint))
                .collect(),
            arrival
                .over_ssh
                .then(|| format!("FARLINE ADDRESS {}", arrival.local.ip()))
                .into_iter()
                .collect(),
            shared
                .wide
                .map(|len| format!("{} {}", data_listener::HELD_FEATURE, len.0))
                .into_iter()
                .collect(),
            shared.config.allow_profile.and_then(profile::feature).into_iter().collect(),
            shared.config.allow_line.and_then(line::feature).into_iter().collect(),
            driver_features(&shared.drivers),
            stores::features(&shared.stores),
        ]
        .concat(),
        checksums: checksum::offered(),
        passive_retrieve: true,
        options_at_once: vec!["limit".to_owned()],
        tls: arrival.certificate.is_some() && !is_secure,
        gssapi: shared.gsi.is_some() && !is_secure,
        secure: is_secure,
        login_within: shared.config.limits.login_timeout.into(),
        home: shared.home.clone(),
        setting_name: shared.config.setting_name,
        modules: [TREE_MODULE].iter().chain(profile::MODULES).map(ToString::to_string).collect(),
        net_stacks: shared.drivers.listening().map(|driver| driver.name.to_owned()).collect(),
        ..ServerConfig::default()
    }
}

/// What FEAT lists of the drivers that a client may choose.
fn driver_features(drivers: &Registry) -> Vec<String> {
    drivers
        .listening()
        .flat_map(|driver| driver.features.iter().map(|feature| format!("FARLINE {feature}")))
        .collect()
}
