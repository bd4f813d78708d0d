/**
 * The filter of system calls for Linux: what is not subject to the other limits, and what only widens the kernel's surface.
 *
 * @since 0.2.0
 */

/** Memory that no limit of a process counts, tracing, keys, mounts, modules, and rings that bypass this filter. */
const x64 = {
  arch: 0xc000003e,
  socket: 41,
  refused: [
    319, // memfd_create
    447, // memfd_secret
    29, // shmget
    64, // semget
    68, // msgget
    240, // mq_open
    101, // ptrace
    310, // process_vm_readv
    311, // process_vm_writev
    248, // add_key
    249, // request_key
    250, // keyctl
    321, // bpf
    298, // perf_event_open
    425, // io_uring_setup
    426, // io_uring_enter
    427, // io_uring_register
    323, // userfaultfd
    165, // mount
    166, // umount2
    155, // pivot_root
    161, // chroot
    308, // setns
    272, // unshare
    428, // open_tree
    429, // move_mount
    430, // fsopen
    431, // fsconfig
    432, // fsmount
    433, // fspick
    442, // mount_setattr
    303, // name_to_handle_at
    304, // open_by_handle_at
    246, // kexec_load
    320, // kexec_file_load
    175, // init_module
    313, // finit_module
    176, // delete_module
    169, // reboot
    167, // swapon
    168, // swapoff
    163, // acct
    103, // syslog
    179, // quotactl
    443, // quotactl_fd
    300, // fanotify_init
    172, // iopl
    173, // ioperm
    154, // modify_ldt
    312, // kcmp
    279, // move_pages
    256, // migrate_pages
    237, // mbind
    238 // set_mempolicy
  ]
}

const arm64 = {
  arch: 0xc00000b7,
  socket: 198,
  refused: [
    279, // memfd_create
    447, // memfd_secret
    194, // shmget
    190, // semget
    186, // msgget
    180, // mq_open
    117, // ptrace
    270, // process_vm_readv
    271, // process_vm_writev
    217, // add_key
    218, // request_key
    219, // keyctl
    280, // bpf
    241, // perf_event_open
    425, // io_uring_setup
    426, // io_uring_enter
    427, // io_uring_register
    282, // userfaultfd
    40, // mount
    39, // umount2
    41, // pivot_root
    51, // chroot
    268, // setns
    97, // unshare
    428, // open_tree
    429, // move_mount
    430, // fsopen
    431, // fsconfig
    432, // fsmount
    433, // fspick
    442, // mount_setattr
    264, // name_to_handle_at
    265, // open_by_handle_at
    104, // kexec_load
    294, // kexec_file_load
    105, // init_module
    273, // finit_module
    106, // delete_module
    142, // reboot
    224, // swapon
    225, // swapoff
    89, // acct
    116, // syslog
    60, // quotactl
    443, // quotactl_fd
    262, // fanotify_init
    272, // kcmp
    239, // move_pages
    238, // migrate_pages
    235, // mbind
    237 // set_mempolicy
  ]
}

const processors: ReadonlyMap<string, typeof x64> = new Map([["x64", x64], ["arm64", arm64]])

/** Families of sockets that belong to the network namespace: unix, inet, inet6 and netlink. A vsock does not. */
const families = [1, 2, 10, 16]

const load = 0x20 // BPF_LD | BPF_W | BPF_ABS
const equal = 0x15 // BPF_JMP | BPF_JEQ | BPF_K
const atLeast = 0x35 // BPF_JMP | BPF_JGE | BPF_K
const give = 0x06 // BPF_RET | BPF_K
const allow = 0x7fff0000
const errno = 0x00050000
const kill = 0x80000000

/**
 * The filter as the kernel takes it, or nothing for a processor whose numbers are not known here.
 *
 * @internal
 */
export const filter = (processor: string): Uint8Array | undefined => {
  const numbers = processors.get(processor)
  if (numbers === undefined) return undefined
  const { arch, refused, socket } = numbers
  const lines: Array<readonly [code: number, yes: number, no: number, k: number]> = [
    [load, 0, 0, 4],
    [equal, 1, 0, arch],
    [give, 0, 0, kill],
    [load, 0, 0, 0]
  ]
  // Behind the comparisons: allowed, refused, then the families of a socket.
  const comparisons = refused.length + 2
  lines.push([atLeast, comparisons, 0, 0x40000000]) // the other calling convention of x64
  lines.push([equal, comparisons, 0, socket])
  refused.forEach((call, i) => lines.push([equal, refused.length - i, 0, call]))
  lines.push([give, 0, 0, allow])
  lines.push([give, 0, 0, errno | 38]) // ENOSYS, after which programs try without
  lines.push([load, 0, 0, 16])
  families.forEach((family, i) => lines.push([equal, families.length - i, 0, family]))
  lines.push([give, 0, 0, errno | 97]) // EAFNOSUPPORT
  lines.push([give, 0, 0, allow])
  const bytes = new DataView(new ArrayBuffer(lines.length * 8))
  lines.forEach(([code, yes, no, k], i) => {
    bytes.setUint16(8 * i, code, true)
    bytes.setUint8(8 * i + 2, yes)
    bytes.setUint8(8 * i + 3, no)
    bytes.setUint32(8 * i + 4, k, true)
  })
  return new Uint8Array(bytes.buffer)
}
