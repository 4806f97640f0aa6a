#include "bridges/kresp/channels/redis_inbox.h"

void redis_inbox_ring(struct redis_inbox *inbox)
{
    struct redis_mailbox *mailbox = inbox->mailbox;
    if (!mailbox || inbox->is_in_mailbox)
        return;
    bool was_empty = mailbox->first == NULL;
    inbox->is_in_mailbox = true;
    inbox->next_in_mailbox = mailbox->first;
    mailbox->first = inbox;
    if (was_empty)
        mailbox->wake(mailbox->context);
}

void redis_inbox_deliver(struct redis_inbox *inbox, const struct kv_slice *pattern,
                         struct kv_slice channel, struct kv_slice message)
{
    struct resp_reply *messages = &inbox->messages;
    size_t bytes = message.size + channel.size + (pattern ? pattern->size : 0);
    size_t unread = byte_buffer_size(&messages->bytes) + inbox->unread_bytes;
    if (inbox->is_overrun)
        return;
    if (bytes <= REDIS_INBOX_BYTES && unread <= REDIS_INBOX_BYTES - bytes) {
        reply_push(messages, pattern ? 4 : 3);
        reply_bulk_text(messages, pattern ? "pmessage" : "message");
        if (pattern)
            reply_bulk(messages, *pattern);
        reply_bulk(messages, channel);
        reply_bulk(messages, message);
    } else {
        inbox->is_overrun = true;
    }
    inbox->is_overrun |= messages->bytes.failed;
    if (inbox->is_overrun)
        byte_buffer_free(&messages->bytes);
    redis_inbox_ring(inbox);
}

void redis_inbox_take(struct redis_inbox *inbox, struct resp_reply *reply)
{
    struct byte_buffer *bytes = &inbox->messages.bytes;
    if (byte_buffer_size(bytes) > 0 && reply->bytes.end == 0 && !reply->bytes.failed) {
        struct byte_buffer empty = reply->bytes;
        reply->bytes = *bytes;
        *bytes = empty;
    } else if (byte_buffer_size(bytes) > 0) {
        byte_buffer_append(&reply->bytes, bytes->data + bytes->start, byte_buffer_size(bytes));
        byte_buffer_free(bytes);
    }
    inbox->messages.protocol = reply->protocol;
    inbox->unread_bytes = byte_buffer_size(&reply->bytes);
}

void redis_inbox_free(struct redis_inbox *inbox)
{
    if (inbox->is_in_mailbox) {
        struct redis_inbox **link = &inbox->mailbox->first;
        while (*link != inbox)
            link = &(*link)->next_in_mailbox;
        *link = inbox->next_in_mailbox;
        inbox->is_in_mailbox = false;
    }
    byte_buffer_free(&inbox->messages.bytes);
    inbox->is_overrun = false;
}
