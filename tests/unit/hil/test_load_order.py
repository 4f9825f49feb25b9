"""In which order do a kernel's modules load?"""

from hil.image.kernel import load_order

# As depmod writes it (modules.dep(5)): a module before what it needs, what is needed first last.
DEPENDENCIES = """\
kernel/fs/ext4/ext4.ko: kernel/lib/crc16.ko kernel/fs/mbcache.ko kernel/fs/jbd2/jbd2.ko
kernel/fs/jbd2/jbd2.ko:
kernel/fs/mbcache.ko:
kernel/lib/crc16.ko:
kernel/crypto/crc32c-generic.ko.xz:
kernel/drivers/block/virtio_blk.ko: kernel/drivers/virtio/virtio_ring.ko kernel/drivers/virtio/virtio.ko
kernel/drivers/virtio/virtio_ring.ko: kernel/drivers/virtio/virtio.ko
kernel/drivers/virtio/virtio.ko:
"""


def test_every_module_comes_after_what_it_needs_and_once() -> None:
    order = load_order(DEPENDENCIES, ("virtio_blk", "virtio_ring", "ext4"))
    assert [path.rpartition("/")[2] for path in order] == [
        "virtio.ko",
        "virtio_ring.ko",
        "virtio_blk.ko",
        "jbd2.ko",
        "mbcache.ko",
        "crc16.ko",
        "ext4.ko",
    ]


def test_names_are_found_with_dashes_and_compressed() -> None:
    assert load_order(DEPENDENCIES, ("crc32c_generic",)) == ["kernel/crypto/crc32c-generic.ko.xz"]


def test_what_is_built_into_the_kernel_is_left_out() -> None:
    assert load_order(DEPENDENCIES, ("virtio_mmio",)) == []
