/*
 * covers: bridges/kresp/protocol/resp_request.c bridges/kresp/protocol/decimal.c
 * covers: common/text/glob.c
 *
 * The request parser of kresp under libFuzzer: any bytes become requests or a protocol error; every
 * argument lies in the buffer and within the limits; and the same bytes in pieces, whose sizes the
 * first byte says, give the same. Two arguments of a request are matched as pattern and text, which
 * must come to an end.
 */
#include "tests/fuzz/fuzzing.h"

#include "common/text/parse.h"
#include "bridges/kresp/protocol/decimal.h"
#include "common/text/glob.h"
#include "bridges/kresp/protocol/resp_request.h"

static const struct resp_limits limits = {
    .max_argument_bytes = 256, .max_request_bytes = 2048, .max_arguments = 1000};

/* What was read, as one number: pieces must not change it. */
struct digest {
    uint64_t sum;
    size_t requests;
    bool bad;
};

static void add(struct digest *digest, const void *bytes, size_t size)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < size; i++)
        digest->sum = (digest->sum ^ at[i]) * 1099511628211u;
    digest->sum = (digest->sum ^ size) * 1099511628211u;
}

static void use_numbers(struct kv_slice argument)
{
    char text[INTEGER_BYTES];
    long double real;
    int64_t number;
    if (decimal_parse(argument, &number)) {
        size_t size = format_i64(number, text);
        require(kv_slice_equal(kv_slice(text, size), argument));
    }
    decimal_parse_real(argument, &real);
}

static void read_request(const struct resp_request *request, const struct byte_buffer *input,
                         struct digest *digest)
{
    size_t bytes = 0;
    require(request->count >= 1 && request->count <= 1000);
    for (size_t i = 0; i < request->count; i++) {
        struct kv_slice argument = resp_request_argument(request, input, i);
        const char *at = argument.data;
        require(at >= input->data + input->start && at + argument.size <= input->data + input->end);
        bytes += argument.size;
        add(digest, argument.data, argument.size);
        use_numbers(argument);
    }
    require(bytes <= limits.max_request_bytes);
    if (request->count >= 2) {
        struct kv_slice text = resp_request_argument(request, input, 1);
        uint64_t steps = glob_steps(text.size);
        bool matches = glob_matches(resp_request_argument(request, input, 0), text, true, &steps);
        require(!matches || steps > 0);
    }
}

/* Everything that is in the buffer; what `held` says is given back once before it is read. */
static void read_all(struct resp_request *request, struct byte_buffer *input, bool hold,
                     struct digest *digest)
{
    char problem[RESP_PROBLEM_BYTES];
    bool held = false;
    while (!digest->bad) {
        switch (resp_request_next(request, input, &limits, problem)) {
        case RESP_INCOMPLETE:
            return;
        case RESP_BAD:
            digest->bad = true;
            add(digest, problem, strlen(problem));
            return;
        case RESP_OVERSIZED:
            add(digest, "oversized", 9);
            digest->requests++;
            break;
        case RESP_REQUEST:
            if (hold && !held) {
                resp_request_repeat(request);
                held = true;
                break;
            }
            held = false;
            digest->requests++;
            read_request(request, input, digest);
            break;
        }
    }
}

static struct digest read_in_pieces(const uint8_t *data, size_t size, size_t piece, bool hold)
{
    struct resp_request request = {0};
    struct byte_buffer input = {0};
    struct digest digest = {0};
    for (size_t at = 0; at < size && !digest.bad; at += piece) {
        byte_buffer_append(&input, data + at, size - at < piece ? size - at : piece);
        read_all(&request, &input, hold, &digest);
        resp_request_release(&request, &input);
        require(digest.bad || byte_buffer_size(&input) <=
                                  RESP_MAX_LINE_BYTES + 2 * limits.max_request_bytes + piece);
    }
    resp_request_free(&request);
    byte_buffer_free(&input);
    return digest;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    struct digest whole = read_in_pieces(data + 1, size - 1, size, false);
    struct digest pieces = read_in_pieces(data + 1, size - 1, data[0] % 64 + 1, data[0] & 64);
    require(whole.requests == pieces.requests && whole.sum == pieces.sum &&
            whole.bad == pieces.bad);
    return 0;
}
