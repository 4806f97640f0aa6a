"""Message queues and shared memory, for mqkv.py: the calls of the kernel that Python lacks."""
import ctypes
import errno
import fcntl
import mmap
import os
import platform
import struct
import time

_libc = ctypes.CDLL(None, use_errno=True)
_librt = _libc if hasattr(_libc, "mq_open") else ctypes.CDLL("librt.so.1", use_errno=True)


class _Attributes(ctypes.Structure):
    _fields_ = [
        ("flags", ctypes.c_long),
        ("maxmsg", ctypes.c_long),
        ("msgsize", ctypes.c_long),
        ("curmsgs", ctypes.c_long),
        ("reserved", ctypes.c_long * 4),
    ]


class _Time(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


_librt.mq_timedsend.argtypes = [
    ctypes.c_int,
    ctypes.c_char_p,
    ctypes.c_size_t,
    ctypes.c_uint,
    ctypes.POINTER(_Time),
]
_librt.mq_send.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint]
_librt.mq_timedreceive.argtypes = [
    ctypes.c_int,
    ctypes.c_char_p,
    ctypes.c_size_t,
    ctypes.POINTER(ctypes.c_uint),
    ctypes.POINTER(_Time),
]
_librt.mq_timedreceive.restype = ctypes.c_ssize_t
_librt.mq_getattr.argtypes = [ctypes.c_int, ctypes.POINTER(_Attributes)]


def _checked(value, what):
    if value < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return value


def _after(seconds):
    """The time of CLOCK_REALTIME in so many seconds, as the kernel's calls want it."""
    end = time.time() + max(seconds, 0)
    return ctypes.byref(_Time(int(end), int(end % 1 * 1e9)))


_LOCK = "hhqqi0q"  # struct flock of a 64-bit Linux


class Lockable:
    """What has a descriptor fd whose lock proves a process's pid."""

    def fileno(self):
        return self.fd

    def lock(self):
        """The write lock on the whole queue that proves this process's pid."""
        fcntl.fcntl(self.fd, fcntl.F_SETLK, struct.pack(_LOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))

    def unlock(self):
        fcntl.fcntl(self.fd, fcntl.F_SETLK, struct.pack(_LOCK, fcntl.F_UNLCK, os.SEEK_SET, 0, 0, 0))

    def lock_holder(self):
        """The pid of another process that holds a lock on the queue, or None."""
        found = fcntl.fcntl(
            self.fd, fcntl.F_GETLK, struct.pack(_LOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        )
        kind, _, _, _, pid = struct.unpack(_LOCK, found)
        return None if kind == fcntl.F_UNLCK else pid

    def links(self):
        return os.fstat(self.fd).st_nlink

    def shown_number(self):
        """The length of another process's write lock from the start; 0: none, or one of all."""
        found = fcntl.fcntl(
            self.fd, fcntl.F_GETLK, struct.pack(_LOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        )
        kind, _, start, length, _ = struct.unpack(_LOCK, found)
        return length if kind == fcntl.F_WRLCK and start == 0 else 0


class Queue(Lockable):
    """A message queue. Never open one's own reply queue twice: closing one descriptor gives up its
    lock."""

    def __init__(self, name, mode=os.O_WRONLY, permissions=0o600, depth=10, message_bytes=8192):
        self.name = name
        attributes = _Attributes(maxmsg=depth, msgsize=message_bytes)
        self.fd = -1
        self.fd = _checked(
            _librt.mq_open(
                name.encode(),
                mode | os.O_CLOEXEC,
                permissions,
                ctypes.byref(attributes) if mode & os.O_CREAT else None,
            ),
            f"mq_open {name}",
        )
        self.message_bytes = self.attributes().msgsize
        self._buffer = None

    def attributes(self):
        found = _Attributes()
        _checked(_librt.mq_getattr(self.fd, ctypes.byref(found)), "mq_getattr")
        return found

    def send(self, message, priority=0, timeout=0.0):
        """Waits at most timeout for room; None: for ever. OSError with ETIMEDOUT if there is
        none."""
        if timeout is None:
            _checked(
                _librt.mq_send(self.fd, message, len(message), priority), f"mq_send {self.name}"
            )
        else:
            _checked(
                _librt.mq_timedsend(self.fd, message, len(message), priority, _after(timeout)),
                f"mq_timedsend {self.name}",
            )

    def receive(self, timeout=0.0):
        """(message, priority), or None if nothing came in time."""
        if self._buffer is None:
            self._buffer = ctypes.create_string_buffer(self.message_bytes)
        priority = ctypes.c_uint()
        size = _librt.mq_timedreceive(
            self.fd, self._buffer, self.message_bytes, ctypes.byref(priority), _after(timeout)
        )
        if size < 0 and ctypes.get_errno() in (errno.ETIMEDOUT, errno.EINTR, errno.EAGAIN):
            return None
        _checked(size, f"mq_timedreceive {self.name}")
        return self._buffer.raw[:size], priority.value

    def close(self):
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def unlink_queue(name):
    """False if there is none."""
    if _librt.mq_unlink(name.encode()) == 0:
        return True
    if ctypes.get_errno() == errno.ENOENT:
        return False
    return _checked(-1, f"mq_unlink {name}")


class SharedMemory:
    """A client's segment: created, sized, mapped. offset and size are for slicing: memory[a:b]."""

    def __init__(self, name, size, permissions=0o600, truncate_to=None):
        self.name = name
        self.size = size
        self.fd = _checked(
            _librt.shm_open(name.encode(), os.O_CREAT | os.O_EXCL | os.O_RDWR, permissions),
            f"shm_open {name}",
        )
        self.linked, self.memory = True, None
        try:
            os.ftruncate(self.fd, size if truncate_to is None else truncate_to)
            if truncate_to is None:
                self.memory = mmap.mmap(self.fd, size)
        except OSError:
            self.close()
            raise

    def __getitem__(self, key):
        return self.memory[key]

    def __setitem__(self, key, value):
        self.memory[key] = value

    def unlink(self):
        if self.linked:
            _librt.shm_unlink(self.name.encode())
            self.linked = False

    def close(self):
        self.unlink()
        if self.memory is not None:
            self.memory.close()
        os.close(self.fd)


_FUTEX_CALL = {"x86_64": 202, "aarch64": 98, "riscv64": 98, "ppc64le": 221, "s390x": 238}
_FUTEX_WAIT, _FUTEX_WAKE = 0, 1


def _futex(word, operation, value, seconds=None):
    timeout = None
    if seconds is not None:
        timeout = ctypes.byref(_Time(int(seconds), int(seconds % 1 * 1e9)))
    return _libc.syscall(
        ctypes.c_long(_FUTEX_CALL[platform.machine()]),
        ctypes.byref(word),
        operation,
        ctypes.c_uint32(value),
        timeout,
        None,
        0,
    )


class Ring(Lockable):
    """Shared memory into whose slots the server writes replies. It does what a Queue does for its
    reader. words: bell, the states, and at 17 whether the session has ended."""

    SLOTS_BEGIN, NOT_USED, ENDED = 128, 16, 17

    def __init__(self, name, depth, message_bytes):
        self.name, self.depth, self.message_bytes = name, depth, message_bytes
        self.stride = -(-message_bytes // 64) * 64
        self.object = SharedMemory(name, self.SLOTS_BEGIN + depth * self.stride)
        self.fd = self.object.fd
        try:
            os.posix_fallocate(self.fd, 0, self.object.size)
        except OSError:  # /dev/shm is full
            self.object.close()
            raise
        self.words = (ctypes.c_uint32 * 32).from_buffer(self.object.memory)
        self._next = 0

    def _take(self):
        for i in range(self.depth):
            slot = (self._next + i) % self.depth
            size = self.words[1 + slot]
            if size == 0:
                continue
            if size > self.message_bytes:
                raise OSError(errno.EBADMSG, f"a message of {size} bytes in {self.name}")
            start = self.SLOTS_BEGIN + slot * self.stride
            message = self.object[start : start + size]
            self.words[1 + slot] = 0
            self._next = slot + 1
            return message, 0
        return None

    def receive(self, timeout=0.0):
        """(message, 0), or None if nothing came in time."""
        end = time.monotonic() + timeout
        while (got := self._take()) is None and (left := end - time.monotonic()) > 0:
            self.words[0] = 1
            if not any(self.words[1 : 1 + self.depth]):
                _futex(self.words, _FUTEX_WAIT, 1, min(left, 0.1))
            self.words[0] = 0
        return got

    def attributes(self):
        waiting = sum(state != 0 for state in self.words[1 : 1 + self.depth])
        return _Attributes(maxmsg=self.depth, msgsize=self.message_bytes, curmsgs=waiting)

    def unlink(self):
        self.object.unlink()

    def close(self):
        self.words = None
        self.object.close()
