"""Which system calls does a worker never need, and what are their numbers?

Numbers of x86-64 (asm/unistd_64.h) and of arm64 (asm-generic/unistd.h); None where an architecture hasn't the call.
"""

from __future__ import annotations

from typing import Dict, Optional, Tuple

Numbers = Tuple[Optional[int], Optional[int]]

MACHINES = ("x86_64", "aarch64")
"""As `platform.machine` names them, in the order of the numbers."""

LOOKING: Dict[str, Numbers] = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
}
"""Into other processes."""

OTHER_PROCESSES: Dict[str, Numbers] = {
    "process_mrelease": (448, 448),
    "pidfd_open": (434, 434),
    "pidfd_send_signal": (424, 424),
    "tkill": (200, 130),
    "execve": (59, 221),
    "execveat": (322, 281),
    "fork": (57, None),
    "vfork": (58, None),
}
"""A worker is one process: it starts none and signals none."""

OUTSIDE: Dict[str, Numbers] = {
    "shmget": (29, 194),
    "semget": (64, 190),
    "msgget": (68, 186),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
}
"""Memory and queues that would outlive it."""

KERNEL: Dict[str, Numbers] = {
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "perf_event_open": (298, 241),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "syslog": (103, 116),
    "lookup_dcookie": (212, 18),
    "nfsservctl": (180, 42),
    "vhangup": (153, 58),
    "personality": (135, 92),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    "uselib": (134, None),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "fanotify_init": (300, 262),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
}
"""Parts of the kernel that are large, that are for root, or by which a filter of system calls is got around."""

NAMESPACES: Dict[str, Numbers] = {
    "mount": (165, 40),
    "umount2": (166, 39),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "unshare": (272, 97),
    "setns": (308, 268),
}

FILES: Dict[str, Numbers] = {
    "creat": (85, None),
    "mkdir": (83, None),
    "mkdirat": (258, 34),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "link": (86, None),
    "linkat": (265, 37),
    "symlink": (88, None),
    "symlinkat": (266, 36),
    "rename": (82, None),
    "renameat": (264, 38),
    "renameat2": (316, 276),
    "unlink": (87, None),
    "unlinkat": (263, 35),
    "rmdir": (84, None),
    "truncate": (76, 45),
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "setxattrat": (463, 463),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "removexattrat": (466, 466),
    "file_setattr": (469, 469),
}
"""Changes to files that Landlock leaves free, or that older kernels have no Landlock against."""

FORBIDDEN_TO_FRONT: Dict[str, Numbers] = {**LOOKING, **KERNEL, **NAMESPACES}

FORBIDDEN: Dict[str, Numbers] = {**FORBIDDEN_TO_FRONT, **OTHER_PROCESSES, **OUTSIDE, **FILES}

ABSENT: Dict[str, Numbers] = {"clone3": (435, 435), "openat2": (437, 437)}
"""Their arguments lie in memory, where a filter can't look. Told that the kernel has none, the C library takes the
older call."""

FILTERED: Dict[str, Numbers] = {
    "clone": (56, 220),
    "open": (2, None),
    "openat": (257, 56),
    "ioctl": (16, 29),
    "prctl": (157, 167),
    "kill": (62, 129),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "prlimit64": (302, 261),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "fcntl": (72, 25),
}
"""Allowed or not by one of their arguments: `shoal_worker.seccomp`."""
