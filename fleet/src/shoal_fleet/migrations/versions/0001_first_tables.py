"""Which tables does the first version have?"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "api_token",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("secret_sha256", sa.String(length=64), nullable=False),
        sa.Column("role", sa.Enum("read", "admin", name="role", native_enum=False, length=16), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("last_used_at", sa.Double(), nullable=True),
        sa.Column("revoked_at", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_token")),
        sa.UniqueConstraint("secret_sha256", name=op.f("uq_api_token_secret_sha256")),
    )
    op.create_index(
        "uq_api_token_name",
        "api_token",
        ["name"],
        unique=True,
        sqlite_where=sa.text("revoked_at IS NULL"),
        postgresql_where=sa.text("revoked_at IS NULL"),
    )
    op.create_table(
        "device",
        sa.Column("id", sa.String(length=63), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("profile", sa.String(length=200), nullable=False),
        sa.Column("agent_version", sa.String(length=200), nullable=False),
        sa.Column("identity_key", sa.String(), nullable=False),
        sa.Column("hpke_key", sa.String(), nullable=False),
        sa.Column("enrolled_at", sa.Double(), nullable=False),
        sa.Column("revoked_at", sa.Double(), nullable=True),
        sa.Column("last_seen_at", sa.Double(), nullable=True),
        sa.Column("is_online", sa.Boolean(), nullable=False),
        sa.Column("reported_counter", sa.BigInteger(), nullable=False),
        sa.Column("reported_envelope", sa.LargeBinary(), nullable=True),
        sa.Column("reported_at", sa.Double(), nullable=True),
        sa.Column("reported_epoch", sa.BigInteger(), nullable=False),
        sa.Column("reported_generation", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_device")),
    )
    op.create_index(
        "uq_device_identity_key",
        "device",
        ["identity_key"],
        unique=True,
        sqlite_where=sa.text("revoked_at IS NULL"),
        postgresql_where=sa.text("revoked_at IS NULL"),
    )
    op.create_index(
        "uq_device_name",
        "device",
        ["name"],
        unique=True,
        sqlite_where=sa.text("revoked_at IS NULL"),
        postgresql_where=sa.text("revoked_at IS NULL"),
    )
    op.create_table(
        "refused_message",
        sa.Column("device_id", sa.String(length=63), nullable=False),
        sa.Column("channel", sa.String(length=32), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("last_reason", sa.Text(), nullable=False),
        sa.Column("last_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("device_id", "channel", name=op.f("pk_refused_message")),
    )
    op.create_table(
        "release",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=63), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("manifest_sha256", sa.String(length=64), nullable=False),
        sa.Column("targets_version", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_release")),
        sa.UniqueConstraint("manifest_sha256", name=op.f("uq_release_manifest_sha256")),
        sa.UniqueConstraint("name", "version", name=op.f("uq_release_name_version")),
    )
    op.create_table(
        "role_metadata",
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("raw", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("role", "version", name=op.f("pk_role_metadata")),
    )
    op.create_table(
        "rollout",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("release", sa.String(length=63), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("manifest_sha256", sa.String(length=64), nullable=False),
        sa.Column("probation", sa.Text(), nullable=False),
        sa.Column(
            "state",
            sa.Enum("running", "succeeded", "failed", "aborted", name="rolloutstate", native_enum=False, length=16),
            nullable=False,
        ),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("finished_at", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_rollout")),
    )
    op.create_table(
        "target",
        sa.Column("path", sa.String(length=300), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("raw", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("path", "sha256", name=op.f("pk_target")),
    )
    op.create_table(
        "answer",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("device_id", sa.String(length=63), nullable=False),
        sa.Column("answer_id", sa.String(length=64), nullable=False),
        sa.Column("stream", sa.String(length=32), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("received_at", sa.Double(), nullable=False),
        sa.Column("source", sa.String(length=200), nullable=False),
        sa.Column("item", sa.String(length=200), nullable=False),
        sa.Column("release", sa.String(length=63), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("manifest_sha256", sa.String(length=64), nullable=False),
        sa.Column("latency_ms", sa.Double(), nullable=False),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.Column("words", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["device_id"], ["device.id"], name=op.f("fk_answer_device_id_device")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_answer")),
        sa.UniqueConstraint("device_id", "answer_id", name=op.f("uq_answer_device_id_answer_id")),
    )
    op.create_index(op.f("ix_answer_device_id_id"), "answer", ["device_id", "id"], unique=False)
    op.create_index(op.f("ix_answer_release_version"), "answer", ["release", "version"], unique=False)
    op.create_table(
        "desired",
        sa.Column("device_id", sa.String(length=63), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("document", sa.LargeBinary(), nullable=False),
        sa.Column("published_at", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["device_id"], ["device.id"], name=op.f("fk_desired_device_id_device")),
        sa.PrimaryKeyConstraint("device_id", name=op.f("pk_desired")),
    )
    op.create_table(
        "device_certificate",
        sa.Column("serial", sa.String(length=40), nullable=False),
        sa.Column("device_id", sa.String(length=63), nullable=False),
        sa.Column("not_after", sa.Double(), nullable=False),
        sa.Column("revoked_at", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["device_id"], ["device.id"], name=op.f("fk_device_certificate_device_id_device")),
        sa.PrimaryKeyConstraint("serial", name=op.f("pk_device_certificate")),
    )
    op.create_index(op.f("ix_device_certificate_device_id"), "device_certificate", ["device_id"], unique=False)
    op.create_table(
        "enrolment_token",
        sa.Column("secret_sha256", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=False),
        sa.Column("keys_sha256", sa.String(length=64), nullable=True),
        sa.Column("device_id", sa.String(length=63), nullable=True),
        sa.Column("answer", sa.LargeBinary(), nullable=True),
        sa.ForeignKeyConstraint(["device_id"], ["device.id"], name=op.f("fk_enrolment_token_device_id_device")),
        sa.PrimaryKeyConstraint("secret_sha256", name=op.f("pk_enrolment_token")),
    )
    op.create_table(
        "event",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("device_id", sa.String(length=63), nullable=False),
        sa.Column("stream", sa.String(length=32), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("received_at", sa.Double(), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["device_id"], ["device.id"], name=op.f("fk_event_device_id_device")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_event")),
    )
    op.create_index(op.f("ix_event_device_id_id"), "event", ["device_id", "id"], unique=False)
    op.create_table(
        "fleet_grant",
        sa.Column("release_id", sa.Integer(), nullable=False),
        sa.Column("ciphertext_sha256", sa.String(length=64), nullable=False),
        sa.Column("counter", sa.BigInteger(), nullable=False),
        sa.Column("sealed_key", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["release_id"], ["release.id"], name=op.f("fk_fleet_grant_release_id_release")),
        sa.PrimaryKeyConstraint("release_id", "ciphertext_sha256", name=op.f("pk_fleet_grant")),
    )
    op.create_table(
        "grant_counter",
        sa.Column("device_id", sa.String(length=63), nullable=False),
        sa.Column("ciphertext_sha256", sa.String(length=64), nullable=False),
        sa.Column("counter", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["device_id"], ["device.id"], name=op.f("fk_grant_counter_device_id_device")),
        sa.PrimaryKeyConstraint("device_id", "ciphertext_sha256", name=op.f("pk_grant_counter")),
    )
    op.create_table(
        "latency",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("device_id", sa.String(length=63), nullable=False),
        sa.Column("stream", sa.String(length=32), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("from_at", sa.Double(), nullable=False),
        sa.Column("to_at", sa.Double(), nullable=False),
        sa.Column("received_at", sa.Double(), nullable=False),
        sa.Column("release", sa.String(length=63), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("manifest_sha256", sa.String(length=64), nullable=False),
        sa.Column("answers", sa.BigInteger(), nullable=False),
        sa.Column("errors", sa.BigInteger(), nullable=False),
        sa.Column("latency_ms", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["device_id"], ["device.id"], name=op.f("fk_latency_device_id_device")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_latency")),
    )
    op.create_index(op.f("ix_latency_device_id_to_at"), "latency", ["device_id", "to_at"], unique=False)
    op.create_table(
        "lost_row",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("device_id", sa.String(length=63), nullable=False),
        sa.Column("stream", sa.String(length=32), nullable=False),
        sa.Column("first", sa.BigInteger(), nullable=False),
        sa.Column("last", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("received_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["device_id"], ["device.id"], name=op.f("fk_lost_row_device_id_device")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_lost_row")),
    )
    op.create_table(
        "process",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("device_id", sa.String(length=63), nullable=False),
        sa.Column("stream", sa.String(length=32), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("received_at", sa.Double(), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("pss_bytes", sa.BigInteger(), nullable=False),
        sa.Column("rss_bytes", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["device_id"], ["device.id"], name=op.f("fk_process_device_id_device")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_process")),
    )
    op.create_index(op.f("ix_process_device_id_id"), "process", ["device_id", "id"], unique=False)
    op.create_table(
        "rejected_row",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("device_id", sa.String(length=63), nullable=False),
        sa.Column("stream", sa.String(length=32), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("raw", sa.LargeBinary(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("received_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["device_id"], ["device.id"], name=op.f("fk_rejected_row_device_id_device")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_rejected_row")),
    )
    op.create_table(
        "rollout_device",
        sa.Column("rollout_id", sa.Integer(), nullable=False),
        sa.Column("device_id", sa.String(length=63), nullable=False),
        sa.Column(
            "state",
            sa.Enum(
                "assigned",
                "updating",
                "succeeded",
                "failed",
                "aborted",
                name="devicestate",
                native_enum=False,
                length=16,
            ),
            nullable=False,
        ),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("assigned_at", sa.Double(), nullable=False),
        sa.Column("changed_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["device_id"], ["device.id"], name=op.f("fk_rollout_device_device_id_device")),
        sa.ForeignKeyConstraint(["rollout_id"], ["rollout.id"], name=op.f("fk_rollout_device_rollout_id_rollout")),
        sa.PrimaryKeyConstraint("rollout_id", "device_id", name=op.f("pk_rollout_device")),
    )
    op.create_index(op.f("ix_rollout_device_device_id_state"), "rollout_device", ["device_id", "state"], unique=False)
    op.create_table(
        "watermark",
        sa.Column("device_id", sa.String(length=63), nullable=False),
        sa.Column("stream", sa.String(length=32), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("duplicates", sa.BigInteger(), nullable=False),
        sa.Column("rejected", sa.BigInteger(), nullable=False),
        sa.Column("lost", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["device_id"], ["device.id"], name=op.f("fk_watermark_device_id_device")),
        sa.PrimaryKeyConstraint("device_id", "stream", name=op.f("pk_watermark")),
    )
