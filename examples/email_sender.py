"""Sends an e-mail for every event, and never sends one twice but for a crash in one moment.

An event's data is JSON: {"to": "anna@example.com", "subject": "Welcome", "text": "Hello Anna"}.

After each mail a mark is committed.  If the process is killed between the answer of the mail
server and the mark, that one mail is sent again: nobody can know better.  Its Message-ID is made
of the event's id, so it is the same, and the receiver can drop the second one.

With LONDISTE_DB and the ticker of README.md:

    londiste queue create mails
    python examples/email_sender.py --register
    python examples/email_sender.py --set smtp_host=localhost --set smtp_port=25

What the mail server refuses for now (4xx, or it cannot be reached) is tried again in a minute,
ten times; what it refuses for good is a dead letter at once, with its answer as the reason:

    londiste queue dead list mails email_sender
"""

import contextlib
import json
import smtplib
from email.message import EmailMessage
from typing import ClassVar

from pydantic import Field

import londiste


class MailSettings(londiste.ConsumerSettings):
    """The settings of every consumer, and our own."""

    sections: ClassVar[tuple[str, ...]] = ("email_sender",)

    smtp_host: str = Field("localhost", description="Mail server.")
    smtp_port: int = Field(25, description="Its port.")
    mail_from: str = Field("shop@example.com", description="Sender of all mails.")


class EmailSender(londiste.Consumer):
    """Sends an e-mail for every event."""

    queue = "mails"
    name = "email_sender"
    delivery = londiste.ONCE_PER_EVENT
    max_attempts = 10
    settings_class = MailSettings
    settings: MailSettings

    def process_event(self, event: londiste.Event, ctx: londiste.Context) -> None:
        try:
            mail = self.mail(event)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise londiste.Dead(f"not a mail: {error!r}") from error
        try:
            self.send(mail)
        except smtplib.SMTPRecipientsRefused as refused:
            ((code, answer),) = refused.recipients.values()
            raise self.verdict(code, answer) from refused
        except smtplib.SMTPResponseException as refused:
            raise self.verdict(refused.smtp_code, refused.smtp_error) from refused
        except (smtplib.SMTPException, OSError) as error:
            raise londiste.Retry(self.settings.retry_seconds, f"{error}") from error
        ctx.stats["mails"] += 1

    def mail(self, event: londiste.Event) -> EmailMessage:
        """The mail of an event.  Raises ValueError and others for what is none."""
        given = json.loads(event.data or "")
        sender = self.settings.mail_from
        mail = EmailMessage()
        mail["From"] = sender
        mail["To"] = given["to"]
        if len(mail["To"].addresses) != 1:
            raise ValueError(f"one recipient for each event, not {given['to']!r}")
        mail["Subject"] = given["subject"]
        mail["Date"] = event.time
        mail["Message-ID"] = f"<{self.settings.queue_name}.{event.id}@{sender.rpartition('@')[2]}>"
        mail.set_content(given["text"])
        return mail

    def send(self, mail: EmailMessage) -> None:
        """Returns when the server has taken the mail."""
        with contextlib.closing(
            smtplib.SMTP(self.settings.smtp_host, self.settings.smtp_port, timeout=30)
        ) as server:
            server.send_message(mail)
            # It has the mail; what becomes of the goodbye does not matter.
            with contextlib.suppress(smtplib.SMTPException, OSError):
                server.quit()

    def verdict(self, code: int, answer: bytes | str) -> londiste.Retry | londiste.Dead:
        """What a refusal means for the event: 4xx is for now, 5xx is for good."""
        text = answer if isinstance(answer, str) else answer.decode(errors="replace")
        if code >= 500:
            return londiste.Dead(f"{code} {text}")
        return londiste.Retry(self.settings.retry_seconds, f"{code} {text}")


if __name__ == "__main__":
    EmailSender.main()
