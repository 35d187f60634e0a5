//! Cutting against a byte-exact reference: pieces are put together again, and every checksum is
//! computed from nothing.

use super::*;
use farline_core::units::Rng;

/// A super-packet as TUN hands it over: virtio header, IP, transport, payload.
fn packet(
    ipv6: bool,
    tcp: bool,
    payload: usize,
    segment: u16,
    flags: u8,
    rng: &mut Rng,
) -> Vec<u8> {
    let transport_len = if tcp { 32 } else { 8 };
    let ip_len = if ipv6 { 40 } else { 20 };
    let total = ip_len + transport_len + payload;
    let kind = match (tcp, ipv6) {
        (true, false) => 1,
        (true, true) => 4,
        (false, _) => 5,
    };
    let mut bytes = vec![1, kind];
    let checksum_offset = if tcp { 16u16 } else { 6 };
    for word in [(ip_len + transport_len) as u16, segment, ip_len as u16, checksum_offset] {
        bytes.extend(word.to_ne_bytes());
    }
    let mut ip = vec![0u8; total];
    rng_fill(&mut ip, rng);
    if ipv6 {
        ip[0] = 0x60;
        put(&mut ip, 4, (total - 40) as u16);
        ip[6] = if tcp { 6 } else { 17 };
    } else {
        ip[0] = 0x45;
        put(&mut ip, 2, total as u16);
        put(&mut ip, 4, 0xffff);
        put(&mut ip, 6, 0x4000);
        ip[9] = if tcp { 6 } else { 17 };
    }
    if tcp {
        ip[ip_len + 4..ip_len + 8].copy_from_slice(&0xffff_f000u32.to_be_bytes());
        ip[ip_len + 12] = 8 << 4;
        ip[ip_len + 13] = flags;
    } else {
        put(&mut ip, ip_len + 4, (transport_len + payload) as u16);
    }
    bytes.extend(ip);
    bytes
}

fn rng_fill(bytes: &mut [u8], rng: &mut Rng) {
    bytes.iter_mut().for_each(|byte| *byte = rng.next_u64() as u8);
}

/// What a receiver gets: the piece with its checksum completed as its offload header asks.
fn completed(piece: &[u8]) -> Vec<u8> {
    let word = |at: usize| usize::from(u16::from_ne_bytes([piece[at], piece[at + 1]]));
    let mut ip = piece[tun::HEADER..].to_vec();
    let (start, offset) = (word(6), word(8));
    let done = !fold(sum(&ip[start..]));
    put(&mut ip, start + offset, done);
    ip
}

/// Checks lengths and checksums of one finished frame as a strict receiver would.
fn assert_well_formed(ip: &[u8]) {
    let ipv6 = ip[0] >> 4 == 6;
    let (start, addresses, protocol) = if ipv6 { (40, 8..40, ip[6]) } else { (20, 12..20, ip[9]) };
    if ipv6 {
        assert_eq!(usize::from(take(ip, 4)), ip.len() - 40);
    } else {
        assert_eq!(usize::from(take(ip, 2)), ip.len());
        assert_eq!(fold(sum(&ip[..20])), 0xffff, "IPv4 header checksum");
    }
    if protocol == 17 {
        assert_eq!(usize::from(take(ip, start + 4)), ip.len() - start, "UDP length");
    }
    let pseudo = sum(&ip[addresses]) + u64::from(protocol) + (ip.len() - start) as u64;
    assert_eq!(fold(pseudo + sum(&ip[start..])), 0xffff, "transport checksum");
}

fn piece(packet: &[u8], layout: &Layout, frames: Range<u32>) -> Vec<u8> {
    let mut bytes = head(packet, layout, &frames).bytes().to_vec();
    bytes.extend(&packet[payload(layout, &frames)]);
    bytes
}

#[test]
fn frames_cut_from_a_train_are_what_a_card_would_send() {
    let mut rng = Rng::new(1);
    for (ipv6, tcp) in [(false, true), (true, true), (false, false), (true, false)] {
        for payload_len in [1, 999, 1_000, 1_001, 10_000, 60_001] {
            let packet = packet(ipv6, tcp, payload_len, 1_000, 0x80 | 0x18 | 0x01, &mut rng);
            let layout = Layout::of(&packet);
            let count = layout.frames().count();
            assert_eq!(count as usize, payload_len.div_ceil(1_000));
            let mut together: Vec<u8> = Vec::new();
            for frame in 0..count {
                let bytes = piece(&packet, &layout, frame..frame + 1);
                assert_eq!(bytes[1], 0, "one segment is no super-packet");
                let ip = completed(&bytes);
                assert_well_formed(&ip);
                let start = layout.transport_start;
                if tcp {
                    let sequence = u32::from_be_bytes([
                        ip[start + 4],
                        ip[start + 5],
                        ip[start + 6],
                        ip[start + 7],
                    ]);
                    assert_eq!(sequence, 0xffff_f000u32.wrapping_add(frame * 1_000));
                    let first = if frame == 0 { 0x80 } else { 0 };
                    let last = if frame + 1 == count { 0x09 } else { 0 };
                    assert_eq!(
                        ip[start + 13],
                        0x10 | first | last,
                        "flags of frame {frame} of {count}"
                    );
                }
                if !ipv6 {
                    assert_eq!(take(&ip, 4), 0xffffu16.wrapping_add(frame as u16));
                }
                together.extend_from_slice(&ip[layout.payload_start..]);
            }
            assert_eq!(together, packet[tun::HEADER + layout.payload_start..]);
        }
    }
}

#[test]
fn a_run_of_frames_stays_a_super_packet() {
    let mut rng = Rng::new(2);
    for ipv6 in [false, true] {
        let packet = packet(ipv6, true, 7_500, 1_000, 0x18, &mut rng);
        let layout = Layout::of(&packet);
        let run = piece(&packet, &layout, 3..8);
        let again = Layout::of(&run);
        assert_eq!(again.frames().count(), 5);
        // Cutting the piece gives the same frames as cutting the whole.
        for frame in 0..5 {
            let direct = completed(&piece(&packet, &layout, frame + 3..frame + 4));
            assert_eq!(completed(&piece(&run, &again, frame..frame + 1)), direct);
        }
    }
}

#[test]
fn a_flip_changes_one_payload_bit_and_no_verdict() {
    let mut rng = Rng::new(3);
    for (ipv6, tcp) in [(false, true), (true, true), (false, false), (true, false)] {
        for round in 0..200u64 {
            // A finished packet: no offload, checksum in place.
            let super_packet =
                packet(ipv6, tcp, 1 + rng.below(1_400) as usize, 1_448, 0x18, &mut rng);
            let layout = Layout::of(&super_packet);
            let ip = completed(&piece(&super_packet, &layout, 0..1));
            let mut finished = vec![0u8; tun::HEADER];
            finished.extend(&ip);
            let layout = Layout::of(&finished);
            let before = finished.clone();
            assert!(flip(&mut finished, &layout, 0, rng.next_u64() ^ round));
            assert_well_formed(&finished[tun::HEADER..]);
            let start = tun::HEADER + layout.payload_start;
            let changed: u32 = before[start..]
                .iter()
                .zip(&finished[start..])
                .map(|(a, b)| (a ^ b).count_ones())
                .sum();
            assert_eq!(changed, 1);
        }
    }
}

#[test]
fn a_packet_that_is_not_understood_is_one_frame_and_never_cut() {
    for bytes in [&[0u8; 12][..], &[0; 10], &[0, 1, 0, 0, 100, 0, 0, 0, 0, 0, 0x45, 0, 0, 3]] {
        let layout = Layout::of(bytes);
        assert_eq!(layout.frames().count(), 1);
    }
}
