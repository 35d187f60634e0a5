//! Linux-PAM, as far as asking it for a password goes. Loaded at run time: not every host has it.
#![expect(unsafe_code, reason = "a C library with callbacks")]

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_uint, c_void};
use std::path::Path;
use std::ptr::{null, null_mut};

/// The library, by the name that Linux-PAM has had since 1.0.
const NAME: &str = "libpam.so.0";

// Of `security/_pam_types.h`.
const SUCCESS: c_int = 0;
const BUF_ERR: c_int = 5;
const CONV_ERR: c_int = 19;
const PROMPT_ECHO_OFF: c_int = 1;
const PROMPT_ECHO_ON: c_int = 2;
const FAIL_DELAY: c_int = 10;
const DISALLOW_NULL_AUTHTOK: c_int = 1;
const SILENT: c_int = 0x8000;

#[repr(C)]
struct Message {
    style: c_int,
    text: *const c_char,
}

#[repr(C)]
struct Response {
    text: *mut c_char,
    retcode: c_int,
}

type Converse = extern "C" fn(c_int, *mut *const Message, *mut *mut Response, *mut c_void) -> c_int;

#[repr(C)]
struct Conversation {
    converse: Converse,
    data: *mut c_void,
}

#[repr(C)]
struct Handle {
    _opaque: [u8; 0],
}

type StartIn = unsafe extern "C" fn(
    *const c_char,
    *const c_char,
    *const Conversation,
    *const c_char,
    *mut *mut Handle,
) -> c_int;
type WithFlags = unsafe extern "C" fn(*mut Handle, c_int) -> c_int;
type SetItem = unsafe extern "C" fn(*mut Handle, c_int, *const c_void) -> c_int;

/// The library's functions.
pub(crate) struct Pam {
    start_in: StartIn,
    authenticate: WithFlags,
    manage_account: WithFlags,
    set_item: SetItem,
    end: WithFlags,
    /// They are its.
    _library: Library,
}

impl Pam {
    /// # Errors
    /// In words, when the host does not have it, or one before 1.4, which reads no other folder
    /// than its own.
    pub(crate) fn load() -> Result<Pam, String> {
        let failed = |error: libloading::Error| format!("{NAME}: {error}");
        // SAFETY: loading runs the library's initialisers, which Linux-PAM has none of. It is
        // global because its modules look its symbols up there.
        let library = unsafe { Library::open(Some(NAME), RTLD_NOW | RTLD_GLOBAL) };
        let library = library.map_err(failed)?;
        // SAFETY: these are their signatures in `security/pam_appl.h`; the library outlives them.
        unsafe {
            Ok(Pam {
                start_in: *library.get(b"pam_start_confdir\0").map_err(failed)?,
                authenticate: *library.get(b"pam_authenticate\0").map_err(failed)?,
                manage_account: *library.get(b"pam_acct_mgmt\0").map_err(failed)?,
                set_item: *library.get(b"pam_set_item\0").map_err(failed)?,
                end: *library.get(b"pam_end\0").map_err(failed)?,
                _library: library,
            })
        }
    }

    /// Whether `user` has that password and may log in, by the service of this name: of
    /// `/etc/pam.d`, or the file of that path.
    ///
    /// # Errors
    /// In words, when the service cannot be asked.
    pub(crate) fn is(&self, service: &OsStr, user: &str, password: &[u8]) -> Result<bool, String> {
        let (folder, name) = match Path::new(service) {
            path if path.is_absolute() => (path.parent(), path.file_name()),
            _ => (None, Some(service)),
        };
        let text = |bytes: &[u8]| CString::new(bytes).ok();
        let name = name.and_then(|name| text(name.as_encoded_bytes()));
        let folder = folder.map(|folder| text(folder.as_os_str().as_encoded_bytes()));
        let (Some(name), Some(user), Some(password)) =
            (name, text(user.as_bytes()), text(password))
        else {
            return Ok(false);
        };
        let folder = folder.flatten();
        let data: *const CStr = &*password;
        let conversation =
            Conversation { converse: answer, data: (&raw const data).cast_mut().cast() };
        let mut handle = null_mut();
        // SAFETY: all strings end with NUL, and they, the conversation and what it points at live
        // until the handle is ended below.
        let begun = unsafe {
            let folder = folder.as_ref().map_or(null(), |folder| folder.as_ptr());
            (self.start_in)(
                name.as_ptr(),
                user.as_ptr(),
                &raw const conversation,
                folder,
                &raw mut handle,
            )
        };
        if begun != SUCCESS || handle.is_null() {
            return Err(format!("PAM does not begin: error {begun}"));
        }
        let flags = SILENT | DISALLOW_NULL_AUTHTOK;
        // SAFETY: the handle is one that was begun and not ended; the item is a function of the
        // signature that PAM_FAIL_DELAY has.
        unsafe {
            let at_once: extern "C" fn(c_int, c_uint, *mut c_void) = no_delay;
            (self.set_item)(handle, FAIL_DELAY, at_once as *const c_void);
            let mut status = (self.authenticate)(handle, flags);
            if status == SUCCESS {
                status = (self.manage_account)(handle, flags);
            }
            (self.end)(handle, status);
            Ok(status == SUCCESS)
        }
    }
}

/// Who guesses is held up by the node, which has others to serve meanwhile.
extern "C" fn no_delay(_: c_int, _: c_uint, _: *mut c_void) {}

/// Answers a module's questions: what is asked for unseen is the password, and there is nobody who
/// could say more.
extern "C" fn answer(
    count: c_int,
    messages: *mut *const Message,
    responses: *mut *mut Response,
    data: *mut c_void,
) -> c_int {
    let Some(count) = usize::try_from(count).ok().filter(|count| (1..=32).contains(count)) else {
        return CONV_ERR;
    };
    // SAFETY: `data` is what `is` put there; Linux-PAM gives `count` messages, and frees the
    // responses and their texts with free(3).
    unsafe {
        let password: &CStr = &**data.cast::<*const CStr>();
        let given = libc::calloc(count, size_of::<Response>()).cast::<Response>();
        if given.is_null() {
            return BUF_ERR;
        }
        for at in 0..count {
            match (**messages.add(at)).style {
                PROMPT_ECHO_OFF => (*given.add(at)).text = libc::strdup(password.as_ptr()),
                PROMPT_ECHO_ON => {
                    (0..at).for_each(|before| libc::free((*given.add(before)).text.cast()));
                    libc::free(given.cast());
                    return CONV_ERR;
                }
                _ => {}
            }
        }
        *responses = given;
    }
    SUCCESS
}
