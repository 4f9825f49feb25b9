"""Where do labels go, and what devices run, so that queries find them?"""

import base64
import json

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "device_label",
        sa.Column("device_id", sa.String(length=63), nullable=False),
        sa.Column("key", sa.String(length=63), nullable=False),
        sa.Column("value", sa.String(length=200), nullable=False),
        sa.ForeignKeyConstraint(["device_id"], ["device.id"], name=op.f("fk_device_label_device_id_device")),
        sa.PrimaryKeyConstraint("device_id", "key", name=op.f("pk_device_label")),
    )
    op.create_index(op.f("ix_device_label_key_value"), "device_label", ["key", "value"])
    slots = op.create_table(
        "device_slot",
        sa.Column("device_id", sa.String(length=63), nullable=False),
        sa.Column("release", sa.String(length=63), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("manifest_sha256", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(["device_id"], ["device.id"], name=op.f("fk_device_slot_device_id_device")),
        sa.PrimaryKeyConstraint("device_id", "release", name=op.f("pk_device_slot")),
    )
    op.create_index(op.f("ix_device_slot_release_version"), "device_slot", ["release", "version"])
    op.add_column("enrolment_token", sa.Column("labels", sa.Text(), nullable=False, server_default=sa.text("'{}'")))
    rows = [row for row in _reported_slots()]
    if rows:
        op.bulk_insert(slots, rows)


def _reported_slots() -> list[dict[str, object]]:
    """Of the last reports, which were verified when they came."""
    found = []
    query = sa.text("SELECT id, reported_envelope FROM device WHERE reported_envelope IS NOT NULL")
    for device, raw in op.get_bind().execute(query):
        reported = json.loads(base64.b64decode(json.loads(raw)["payload"]))
        for slot in reported.get("slots", ()):
            current = slot.get("current")
            if current is not None:
                found.append(
                    {
                        "device_id": device,
                        "release": slot["release"],
                        "version": current["version"],
                        "manifest_sha256": current["manifest_sha256"],
                    }
                )
    return found
