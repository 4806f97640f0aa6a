#include "tools/ops/sessions_command.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/ops/admin_request.h"
#include "clientk/program/cli/json_reader.h"
#include "tools/ops/listing.h"
#include "common/text/escape.h"
#include "common/text/parse.h"

#define SECTION "sessions"

/* Finds the name of the process's program, as the kernel knows it here; "-": it cannot be seen. */
static void find_process_name(const char *pid, char program[32])
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%.20s/comm", pid);
    int fd = strspn(pid, "0123456789") == strlen(pid) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    ssize_t size = fd < 0 ? -1 : read(fd, program, 31);
    if (fd >= 0)
        close(fd);
    snprintf(program + (size > 0 ? size : 0), size > 0 ? 1 : 2, "%s", size > 0 ? "" : "-");
    program[strcspn(program, "\n")] = '\0';
}

static const char *session_text(const struct json_value *row, const char *member)
{
    const struct json_value *value = json_member(row, member);
    return value && value->text ? value->text : "0";
}

/* Prints the sessions with the names of programs and readable times, which this program adds. */
static void print_rows(const struct json_value *each, FILE *out)
{
    static const char *const members[] = {"session", "uid",     "pid",
                                          "threads", "credits", "segment_bytes"};
    fputc('[', out);
    for (const struct json_value *row = each ? each->first : NULL; row; row = row->next) {
        char program[32], age[32];
        double age_ms = strtod(session_text(row, "age_ms"), NULL);
        find_process_name(session_text(row, "pid"), program);
        if (age_ms >= 1 && age_ms < 1e12)
            format_duration_ns((uint64_t)age_ms * 1000000, age);
        else
            snprintf(age, sizeof age, "0 s");
        fputc('{', out);
        for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
            fprintf(out, "\"%s\":%.17g,", members[i], strtod(session_text(row, members[i]), NULL));
        fprintf(out, "\"age_ms\":%.17g,\"age\":\"%s\",\"replies\":", age_ms, age);
        escape_print_json(out, kv_slice_from_string(session_text(row, "replies")));
        fputs(",\"program\":", out);
        escape_print_json(out, kv_slice_from_string(program));
        fputs(row->next ? "}," : "}", out);
    }
    fputc(']', out);
}

/* Prints the answer as a listing. KV_IO: it is malformed. */
static enum kv_status print_sessions(struct output *output, const struct clientk_value *answer)
{
    static const struct listing_column columns[] = {
        {"session", "SESSION", true}, {"uid", "UID", true},         {"pid", "PID", true},
        {"age", "AGE", true},         {"threads", "THREADS", true}, {"replies", "REPLIES", false},
        {"program", "PROGRAM", false}};
    char *text = NULL;
    size_t size = 0;
    struct json_value *document = json_parse(answer->data, answer->size);
    if (!document)
        return KV_IO;
    FILE *out = open_memstream(&text, &size);
    if (out)
        print_rows(json_member(json_member(document, SECTION), "each"), out);
    json_free(document);
    enum kv_status status = out && fclose(out) == 0 ? KV_OK : KV_NO_MEMORY;
    if (status == KV_OK)
        status = listing_print_text(output, kv_slice(text, size), columns,
                                    sizeof columns / sizeof columns[0]);
    free(text);
    return status;
}

int sessions_run(struct cli_context *context, const void *options, const struct word *operands,
                 size_t count)
{
    (void)options, (void)operands, (void)count;
    int code = cli_connect_for(context, "sessions");
    if (code != EXIT_DONE)
        return code;
    struct clientk_value answer = {0};
    enum kv_status status = clientk_stats(context->client, SECTION, &answer);
    const char *sentence =
        status == KV_OK ? "the server's answer is malformed" : cli_sentence(status);
    if (status == KV_OK)
        status = print_sessions(&context->output, &answer);
    clientk_value_free(&answer);
    return status == KV_OK ? EXIT_DONE
                           : output_failure(&context->output, "sessions", status, sentence);
}

int kill_run(struct cli_context *context, const void *options, const struct word *operands,
             size_t count)
{
    (void)options;
    for (size_t i = 0; i < count; i++) {
        uint64_t session;
        struct clientk_value answer = {0};
        if (strlen(operands[i].data) != operands[i].size ||
            !parse_u64(operands[i].data, 1, UINT32_MAX, &session))
            return output_failure(&context->output, "kill", KV_USAGE,
                                  "a session is a number; clientk sessions lists them");
        int code = admin_request(context, "kill", "kill", operands[i].data, &answer);
        clientk_value_free(&answer);
        if (code != EXIT_DONE)
            return code;
    }
    return output_answer(&context->output, &(struct answer){.command = "kill"});
}
