//! The codes of errors, in one table: what scripts compare, what `docs/errors.md` lists, and
//! whether trying again is of use.

use super::Fault;
use serde::{Serialize, Serializer};
use std::fmt;

/// Whether the same request may succeed when it is made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Retry {
    /// It fails again until somebody changes something: the request, a right, a disk.
    Never,
    /// At once: something broke on the way, and what arrived is kept.
    Now,
    /// After a while: the other end, a device or the path is busy, away or starting again.
    After,
}

/// Makes the enum of codes from rows such as `Busy "busy" After: Refused;`.
macro_rules! error_codes {
    ($($(#[doc = $meaning:literal])+ $name:ident $slug:literal $retry:ident: $($fault:ident)+;)+) => {
        /// What kind of failure an [`Error`](super::Error) is. It stands as its slug in documents,
        /// in JSON and wherever one process tells another.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum ErrorCode {
            $($(#[doc = $meaning])+ $name,)+
            /// A failure of the program that Farline is a library of, with a slug of its own.
            Other(&'static str),
        }

        impl ErrorCode {
            /// Every code of Farline's, sorted by slug.
            pub const ALL: &[ErrorCode] = &[$(ErrorCode::$name),+];

            /// The stable name: small letters, digits and hyphens, such as `digest-mismatch`.
            pub const fn slug(self) -> &'static str {
                match self {
                    $(ErrorCode::$name => $slug,)+
                    ErrorCode::Other(slug) => slug,
                }
            }

            /// What happened, in a few words.
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(ErrorCode::$name => concat!($($meaning),+).trim_ascii(),)+
                    ErrorCode::Other(_) => "a failure that is not of Farline's",
                }
            }

            /// Whether an error of this code may go away by trying again, where its fault does not
            /// forbid it: see [`Error::retry`](super::Error::retry).
            pub const fn retry(self) -> Retry {
                match self {
                    $(ErrorCode::$name => Retry::$retry,)+
                    ErrorCode::Other(_) => Retry::Never,
                }
            }

            /// Whose fault an error of this code may be.
            pub const fn faults(self) -> &'static [Fault] {
                match self {
                    $(ErrorCode::$name => &[$(Fault::$fault),+],)+
                    ErrorCode::Other(_) => &[],
                }
            }
        }
    };
}

error_codes! {
    /// the transfer was ended by ABOR, or its client went away
    Aborted "aborted" Never: You;
    /// no data connection can be accepted: no file descriptor left
    AcceptFailed "accept-failed" After: Here;
    /// data was to go by another address family than the control connection has
    AddressFamily "address-family" Never: You;
    /// a program that embeds the library and does not call `run()` of farline's module
    /// agent first in `main`
    AgentMissing "agent-missing" Never: You;
    /// the variable FARLINE_AGENT holds no role of this version's
    AgentRole "agent-role" Never: You Bug;
    /// this program cannot be started again for a part of its work
    AgentStart "agent-start" Never: Here Bug;
    /// a PEM file of certificates or keys cannot be read
    BadCertificate "bad-certificate" Never: You;
    /// `--channel` names no driver, an option that is not its own, or layers that cannot
    /// stand there
    BadChannel "bad-channel" Never: You;
    /// a configuration file or flag of `farline serve` makes no sense
    BadConfig "bad-config" Never: You;
    /// a built-in default makes no sense
    BadDefault "bad-default" Never: Bug;
    /// the list of digests does not fit the list of files
    BadDigests "bad-digests" Never: There;
    /// a rule of `--filter`, `--exclude` or `--include`, or of a file of such rules, makes no
    /// sense
    BadFilter "bad-filter" Never: You;
    /// a key of data connections is not 64 hexadecimal digits
    BadKey "bad-key" Never: You;
    /// a server's listing of a folder has a line that is no entry, so that something of it may be
    /// missing
    BadListing "bad-listing" Never: There;
    /// `host:path` that names no host or path
    BadLocation "bad-location" Never: You;
    /// the list of files is malformed or names a path outside the tree
    BadManifest "bad-manifest" Never: There;
    /// a network that makes no sense: its sites, links, rates or delays
    BadNetwork "bad-network" Never: You;
    /// `OPTS FARLINE limit=` without a number
    BadRate "bad-rate" Never: You;
    /// a request that the client machine cannot make
    BadRequest "bad-request" Never: Bug;
    /// a command that comes before the one it needs
    BadSequence "bad-sequence" Now: You Between;
    /// a memory store without a size
    BadSize "bad-size" Never: You;
    /// `--trial-stall` without a pause and a longer span, such as 50ms/1s
    BadStall "bad-stall" Never: You;
    /// a number of data channels that no copy may ask for
    BadStreams "bad-streams" Never: You;
    /// a time, day or duration that cannot be read
    BadTime "bad-time" Never: You;
    /// a URL that makes no sense
    BadUrl "bad-url" Never: You;
    /// the sender cut the tree into other blocks than agreed
    BlockMisplaced "block-misplaced" Never: There;
    /// the sender named bytes that no file has
    BlockOutOfRange "block-out-of-range" Never: There;
    /// blocks did not arrive, or not as they were sent; the same command goes on
    BlocksMissing "blocks-missing" Now: Between;
    /// another transfer writes to the same target, or others have all ports for data
    Busy "busy" After: Refused;
    /// the calendar said what this version does not understand
    CalendarAnswer "calendar-answer" Never: There Bug;
    /// the calendar does not know who asks, or does not allow it
    CalendarDenied "calendar-denied" Never: Refused;
    /// the bandwidth is not free, or a quota is used up; the message says what can be had
    CalendarRefused "calendar-refused" Never: Refused;
    /// a request that the calendar cannot make sense of, or a reservation that is not there, is
    /// over, or has changed meanwhile
    CalendarRequest "calendar-request" Never: You;
    /// the database of a calendar is full, gone, damaged, or another network's
    CalendarStore "calendar-store" After: Here There Bug;
    /// data should be encrypted and cannot be
    CannotEncrypt "cannot-encrypt" Never: You There Refused;
    /// a file of results cannot be read
    CannotRead "cannot-read" Never: Here;
    /// a result file cannot be written
    CannotWrite "cannot-write" Never: Here;
    /// data connections broke; the same command goes on
    ChannelLost "channel-lost" Now: There Between;
    /// no circuit comes about: the program that makes them cannot be run or failed, or no agent
    /// works
    CircuitFailed "circuit-failed" After: Here There;
    /// the program to run in a link cannot be run
    Command "command" Never: You;
    /// loading a congestion control needs a capability
    CongestionCapability "congestion-capability" Never: Refused;
    /// the control is the default of this network namespace
    CongestionDefault "congestion-default" Never: You;
    /// a control that is not of Farline's loading
    CongestionForeign "congestion-foreign" Never: You;
    /// a living process holds the control
    CongestionHeld "congestion-held" Never: You;
    /// the kernel refused a congestion control
    CongestionLoad "congestion-load" Never: Here;
    /// a name that no congestion control can have
    CongestionName "congestion-name" Never: You;
    /// the kernel's own control has no other constants and no other name; or the kernel
    /// lacks it, and Farline brings none
    CongestionNative "congestion-native" Never: You Here;
    /// this build has no congestion controls in BPF (feature `bpf`)
    CongestionNotBuilt "congestion-not-built" Never: Here;
    /// a built-in BPF object is broken
    CongestionObject "congestion-object" Never: Bug;
    /// a control cannot be kept beyond the process
    CongestionPin "congestion-pin" Never: Here;
    /// a kernel without `struct_ops` links, and no place to note who holds a control
    CongestionRecord "congestion-record" Never: Here;
    /// a set of constants that does not exist
    CongestionSet "congestion-set" Never: You;
    /// the name of a control is in use
    CongestionTaken "congestion-taken" Never: You;
    /// the trace of a control cannot be read
    CongestionTrace "congestion-trace" Never: Here;
    /// somebody reads the trace of a control already
    CongestionTraced "congestion-traced" Never: You;
    /// a control cannot be removed
    CongestionUnload "congestion-unload" Never: Here;
    /// the control connection closed
    ControlClosed "control-closed" After: Between;
    /// the server does not answer
    ControlTimeout "control-timeout" After: Between;
    /// no data connection can be made, or it broke
    DataConnection "data-connection" Now: You Between Bug;
    /// a copy that was not over within its `--deadline`; the message says what is kept
    DeadlinePassed "deadline-passed" Never: Between;
    /// what arrived is not what was read: copy it again
    DigestMismatch "digest-mismatch" Now: Between;
    /// the sender said no digest for a file
    DigestMissing "digest-missing" Never: There;
    /// a directory that should go has something in it
    DirectoryNotEmpty "directory-not-empty" Never: You;
    /// two channel drivers of one name
    DriverExists "driver-exists" Never: Bug;
    /// a path without a character
    EmptyPath "empty-path" Never: You;
    /// a channel ended twice in one transfer
    EndOfDataTwice "end-of-data-twice" Never: There;
    /// two channels disagree on how many there are
    EndOfFileTwice "end-of-file-twice" Never: There;
    /// a refusal that says no more; the server's words are in the message
    Failed "failed" Never: There;
    /// a booked rate that a node does not admit, or that nobody can hold here
    HeldRateRefused "held-rate-refused" Never: You Here There Refused;
    /// other sessions hold what a node admits of booked rates
    HeldRateTaken "held-rate-taken" After: Refused;
    /// fewer bytes came than the file has
    Incomplete "incomplete" Now: There Between;
    /// SIGHUP (exit code 129), SIGINT (130) or SIGTERM (143); the message says what is kept
    Interrupted "interrupted" Never: You;
    /// the destination is the source, or lies inside it; or `--delete` would delete the source
    IntoItself "into-itself" Never: You;
    /// a name that no file, or no command line, can have
    InvalidName "invalid-name" Never: There You;
    /// the server could not read or write
    Io "io" Never: There;
    /// a directory where a file is meant: add `-r`
    IsADirectory "is-a-directory" Never: You;
    /// the kernel does not describe its types, which BPF needs
    KernelBtf "kernel-btf" Never: Here;
    /// a kernel that is too old for a congestion control in BPF
    KernelTooOld "kernel-too-old" Never: Here;
    /// a device that cannot send and receive the frames of a line test
    LineDevice "line-device" Never: You Here;
    /// a file is no document of a line test
    LineDocument "line-document" Never: You Bug;
    /// frames of a line test that do not exist, or do not fit the path
    LineFrames "line-frames" Never: You;
    /// the other end of a line test no longer answers
    LineGone "line-gone" After: Between There;
    /// the other end does not let itself be tested, or not at that rate
    LineNotAllowed "line-not-allowed" Never: Refused;
    /// settings of a line test that make no sense
    LineSetting "line-setting" Never: You;
    /// this host cannot send or receive the frames of a line test
    LineSocket "line-socket" Never: Here;
    /// the state of a line test is none to go on from
    LineState "line-state" Never: You Bug;
    /// a TUN device cannot be had
    LinkDevice "link-device" Never: Here;
    /// the process that emulates a link cannot start, or ended early
    LinkEmulator "link-emulator" Never: Here;
    /// the folder where running links leave word cannot be made
    LinkFolder "link-folder" Never: Here;
    /// this user may not make or enter a link
    LinkForbidden "link-forbidden" Never: Here;
    /// there is no such link, or its emulator is dead
    LinkGone "link-gone" Never: You Here;
    /// the command `ip` cannot be run, or failed
    LinkIp "link-ip" Never: Here;
    /// the lock of a link cannot be had
    LinkLock "link-lock" Never: Here;
    /// memory for the packets in flight cannot be had
    LinkMemory "link-memory" Never: Here;
    /// a name that no link can have
    LinkName "link-name" Never: You;
    /// a path of a link that makes no sense
    LinkPath "link-path" Never: You;
    /// an event of a link that makes no sense
    LinkScript "link-script" Never: You;
    /// a setting of a link that makes no sense
    LinkSetting "link-setting" Never: You;
    /// what a running link leaves word of cannot be read or written
    LinkState "link-state" Never: Here;
    /// a link of this name is up
    LinkTaken "link-taken" Never: You;
    /// a list of files takes more memory than a node has for one
    ListMemory "list-memory" Never: Refused;
    /// a listing or manifest beyond what either end takes
    ListTooLong "list-too-long" Never: There;
    /// the address to listen on cannot be had
    ListenFailed "listen-failed" Never: Here;
    /// this process or the node may not lock the memory that an RDMA device is to use (`ulimit -l`)
    LockedMemory "locked-memory" Never: Here There;
    /// user or password was refused
    LoginRefused "login-refused" Never: Refused You;
    /// man pages cannot be written
    ManPage "man-page" Never: Here;
    /// a part of Farline answered what was not asked
    Misanswered "misanswered" Never: Bug;
    /// sources of this host and remote ones in one command
    MixedSources "mixed-sources" Never: You;
    /// the sender broke MODE E
    ModeEBroken "mode-e-broken" Never: There;
    /// it is not known where the other end listens
    NoAddress "no-address" Never: There Bug;
    /// no certificate authorities are installed
    NoAuthorities "no-authorities" Never: Here;
    /// no channel driver leads to the peer; a transfer without a data channel
    NoChannel "no-channel" Never: Here Bug;
    /// no port for data connections can be had
    NoDataPort "no-data-port" Never: Here;
    /// no file descriptor is left
    NoDescriptor "no-descriptor" After: Here;
    /// a TLS key cannot be made
    NoKey "no-key" Never: Here;
    /// memory for staging or a store cannot be had
    NoMemory "no-memory" After: Here;
    /// standard input goes to a directory, and has no name to go under
    NoName "no-name" Never: You;
    /// there is no partial file to remove
    NoPartial "no-partial" Never: You;
    /// no proxy of a grid to show, or one that is not good any more
    NoProxy "no-proxy" Never: You;
    /// the system gives no random numbers
    NoRandomness "no-randomness" Never: Here;
    /// this host or the node has no RDMA device, or not its libraries
    NoRdma "no-rdma" Never: Here There;
    /// no RDMA device has the address, or leads to it
    NoRdmaPath "no-rdma-path" Never: Here There Between;
    /// the other host has no farline to run
    NoRemoteFarline "no-remote-farline" Never: There;
    /// the asynchronous runtime cannot start
    NoRuntime "no-runtime" Never: Here;
    /// signals cannot be waited for
    NoSignals "no-signals" Never: Here;
    /// the disk, or a memory store, is full
    NoSpace "no-space" Never: Here There;
    /// ssh cannot be run
    NoSsh "no-ssh" Never: Here;
    /// the other host has no GridFTP server that ssh could start
    NoSshftp "no-sshftp" Never: There;
    /// no thread can be started
    NoThread "no-thread" Never: Here;
    /// the server offers no TLS
    NoTls "no-tls" Never: There Bug;
    /// no bearer token to log in with
    NoToken "no-token" Never: You;
    /// a node that would let nobody in
    NobodyMayEnter "nobody-may-enter" Never: You;
    /// a file where a directory is meant
    NotADirectory "not-a-directory" Never: You;
    /// a device, FIFO or socket
    NotAFile "not-a-file" Never: You;
    /// this build lacks a part, which a feature brings
    NotBuilt "not-built" Never: Here;
    /// the kernel does not confine a node to what it exports
    NotConfined "not-confined" Never: Here;
    /// `farline://` leads to another server
    NotFarline "not-farline" Never: There;
    /// a remote location where a local one is meant
    NotHere "not-here" Never: Bug;
    /// `null` holds nothing
    NothingToRead "nothing-to-read" Never: You;
    /// more than one file to standard output
    OneFile "one-file" Never: You;
    /// a source that is copied alone was named among others
    OneSource "one-source" Never: You;
    /// bytes for a pipe came in an order that memory cannot set right
    OutOfOrder "out-of-order" Never: There Bug;
    /// who read standard output went away
    OutputClosed "output-closed" Never: Here;
    /// something is there already
    PathExists "path-exists" Never: You;
    /// nothing is there
    PathNotFound "path-not-found" Never: You;
    /// the other end neither moved data nor said a word for the time that --timeout says
    PeerSilent "peer-silent" After: Between;
    /// not permitted: by the file system (here) or by the server (refused)
    PermissionDenied "permission-denied" Never: Here Refused;
    /// a plan without a candidate
    PlanEmpty "plan-empty" Never: Bug;
    /// a flag that would change nothing of this plan
    PlanFlag "plan-flag" Never: You;
    /// a loss that is no probability
    PlanLoss "plan-loss" Never: You;
    /// a plan for no bytes
    PlanNothing "plan-nothing" Never: You;
    /// a path without rate or rtt, or longer than a minute, a window that holds no
    /// packet, or a path over which nothing would arrive
    PlanPath "plan-path" Never: You;
    /// a profile that does not have the path or the direction, or has nothing valid of it
    PlanProfile "plan-profile" Never: You;
    /// a named path without a rtt of its own
    PlanRtt "plan-rtt" Never: You;
    /// a connection of the measurement broke
    ProfileBroken "profile-broken" Now: Between;
    /// a measurement faster than the node allows
    ProfileCeiling "profile-ceiling" Never: Refused;
    /// a measurement of RDMA with what it has not or next to another, or flags of it
    /// without `--channel rdma`
    ProfileChannel "profile-channel" Never: You;
    /// an end of the measurement could not connect to the other
    ProfileConnect "profile-connect" After: Between;
    /// RDMA devices to measure between must be named, or do not fit
    ProfileDevices "profile-devices" Never: You;
    /// two profiles without a cell in common, or a level that is no probability
    ProfileDiff "profile-diff" Never: You;
    /// a direction that is none
    ProfileDirection "profile-direction" Never: You;
    /// a file that is no profile
    ProfileDocument "profile-document" Never: You Bug;
    /// an end of the measurement did not run, or did not say what it found
    ProfileEnd "profile-end" Never: Here There Bug;
    /// a grid that makes no sense
    ProfileGrid "profile-grid" Never: You;
    /// a measured profile cannot go on by simulation
    ProfileKind "profile-kind" Never: You;
    /// the receiving end cannot listen
    ProfileListen "profile-listen" Never: Here;
    /// a profile without a path
    ProfileNoPath "profile-no-path" Never: You;
    /// a node that does not let itself be measured
    ProfileNotAllowed "profile-not-allowed" Never: Refused;
    /// an order of reading and sending that is none
    ProfileOrder "profile-order" Never: You;
    /// a delay between RDMA devices whose packets nothing here holds back
    ProfilePath "profile-path" Never: You;
    /// a preset that does not exist, or cannot be run so
    ProfilePreset "profile-preset" Never: You Bug;
    /// the receiving end cannot go on
    ProfileReceive "profile-receive" Never: Here;
    /// another profile is being measured on this machine, or another run has the document
    ProfileRunning "profile-running" After: Refused;
    /// a scale at which packets no longer fit the path
    ProfileScale "profile-scale" Never: You;
    /// the sending end cannot set its sockets up
    ProfileSend "profile-send" Never: Here;
    /// a way of connecting queue pairs that is none
    ProfileSetup "profile-setup" Never: You;
    /// the sending end did not come
    ProfileSilent "profile-silent" After: Between;
    /// a copy that was over before it could be measured, or went over another driver
    ProfileStaged "profile-staged" Never: Here There Bug;
    /// a store that is none
    ProfileStore "profile-store" Never: You;
    /// a grid that this machine carries exactly at no rate
    ProfileTooFast "profile-too-fast" Never: Here;
    /// a transport of verbs that is none
    ProfileTransport "profile-transport" Never: You;
    /// the delay between RDMA devices in software cannot be set
    ProfileWire "profile-wire" Never: Here;
    /// the server does not speak FTP as it should
    ProtocolBroken "protocol-broken" Never: There;
    /// the quota is used up
    QuotaExceeded "quota-exceeded" Never: Here Refused;
    /// the peer's memory was not open to an RDMA write or read: another address, length
    /// or key than it gave
    RdmaAccess "rdma-access" Never: There;
    /// the peer broke the protocol of RDMA data connections
    RdmaBroken "rdma-broken" Never: There;
    /// the RDMA device was removed, failed, or has no protection domain left
    RdmaDevice "rdma-device" Never: Here There;
    /// one end's RDMA device speaks iWARP, the other's InfiniBand or RoCE
    RdmaFabric "rdma-fabric" Never: Between;
    /// the RDMA device has no GID of the wanted kind for the address
    RdmaGid "rdma-gid" Never: Here There;
    /// the RDMA device may not use memory that Farline gave it
    RdmaMemory "rdma-memory" Never: Bug;
    /// this end's RDMA packets are longer than the node's device takes
    RdmaMtu "rdma-mtu" Never: Between;
    /// the port of the RDMA device is down
    RdmaPortDown "rdma-port-down" After: Here There;
    /// the RDMA device has no room for another connection, or for one of this size
    RdmaRoom "rdma-room" After: Here Refused;
    /// the node speaks another version of the RDMA channel
    RdmaVersion "rdma-version" Never: There;
    /// a read beyond the end of a list
    ReadBeyondEnd "read-beyond-end" Never: Bug;
    /// the file system is read-only
    ReadOnly "read-only" Never: Here Refused;
    /// the server refused, without saying why
    Refused "refused" Never: Refused;
    /// the server did not take the argument
    Rejected "rejected" Never: You There;
    /// farline at the other host ended early
    RemoteFarlineFailed "remote-farline-failed" After: There;
    /// there is less at the destination than there is to go on from
    RestartMismatch "restart-mismatch" Never: You;
    /// the server ends the session
    ServerClosing "server-closing" After: There;
    /// a staging slot was handed out twice, or lost
    SlotHeld "slot-held" Never: Bug;
    /// the booked slot of a copy is over, or its reservation; the same command books anew and goes
    /// on
    SlotOver "slot-over" Never: Refused;
    /// the file changed while it was read
    SourceChanged "source-changed" Never: Here There;
    /// the sender could not read the file whole
    SourceUnreadable "source-unreadable" Never: Here There;
    /// a device, FIFO or socket is not replaced
    SpecialFile "special-file" Never: You;
    /// ssh cannot reach the other host, or was refused there
    SshFailed "ssh-failed" After: Between Refused;
    /// standard output cannot be written
    Stdout "stdout" Never: Here;
    /// reading or writing failed; the message has the system's words
    Storage "storage" Never: Here;
    /// the node does not allow that store
    StoreNotAllowed "store-not-allowed" Never: Refused;
    /// the terminal cannot be read
    Terminal "terminal" Never: Here;
    /// a host reached over ssh cannot take part in a third-party copy
    ThirdParty "third-party" Never: You;
    /// the node does not take data from other hosts
    ThirdPartyRefused "third-party-refused" Never: Refused;
    /// a thread ended early
    ThreadLost "thread-lost" Never: Bug;
    /// the TLS handshake failed
    TlsFailed "tls-failed" Never: There;
    /// the TLS handshake takes too long
    TlsTimeout "tls-timeout" After: Between;
    /// the certificate is not trusted
    TlsUntrusted "tls-untrusted" Never: Refused;
    /// more data channels than the receiver has room for
    TooManyChannels "too-many-channels" After: There Refused;
    /// more would be deleted than --max-delete allows
    TooManyDeletions "too-many-deletions" Never: You;
    /// a file in more pieces with gaps between them than the receiver keeps count of
    TooManyRanges "too-many-ranges" Never: Refused;
    /// a congestion control that the host does not have
    UnknownCongestion "unknown-congestion" Never: You;
    /// a URL scheme that Farline does not know
    UnknownScheme "unknown-scheme" Never: You;
    /// the host cannot be reached
    Unreachable "unreachable" After: Between;
    /// the other end, or the combination asked for, cannot do that
    Unsupported "unsupported" Never: You There Bug;
    /// the command line is wrong
    Usage "usage" Never: You;
    /// the kernel does not grant the buffer that a window needs
    WindowBuffer "window-buffer" Never: Here;
}

impl ErrorCode {
    /// The code of this slug. A later version's slug has none: who reads one says which code stands
    /// for what it does not know.
    pub fn from_slug(slug: &str) -> Option<ErrorCode> {
        let at = ErrorCode::ALL.binary_search_by(|code| code.slug().cmp(slug)).ok()?;
        ErrorCode::ALL.get(at).copied()
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.slug())
    }
}

impl Serialize for ErrorCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.slug())
    }
}

#[cfg(test)]
mod tests;
