//! Flags that another test file proves already: which of its tests fails if the flag does nothing.

use crate::Flag;

/// Command, flags, `file::test`.
const ROWS: &[(&str, &[&str], &str)] = &[
    ("get", &["output"], "get_command::output_is_a_file_a_folder_or_standard_output"),
    ("get", &["input"], "get_command::several_files_go_into_a_folder_that_is_made"),
    ("get", &["checksum"], "get_command::a_checksum_decides_whether_there_is_a_file_at_all"),
    ("get", &["dry-run"], "get_command::a_dry_run_writes_nothing"),
    (
        "mirror",
        &["include", "exclude", "min-age", "min-size", "order-by", "max-transfer"],
        "mirror_command::filters_sizes_and_orders_decide_what_comes",
    ),
    ("mirror", &["max-age"], "mirror_command::an_age_that_the_listing_does_not_tell_exactly_is_asked_for"),
    ("mirror", &["compare"], "mirror_command::compare_says_what_up_to_date_means"),
    ("mirror", &["delete", "max-delete"], "mirror_command::too_much_is_not_removed"),
    (
        "mirror",
        &["delete-excluded", "backup-dir"],
        "mirror_command::what_is_not_ours_is_never_removed_and_what_is_removed_can_be_kept",
    ),
    ("mirror", &["every"], "mirror_command::a_mirror_repeats_itself_until_it_is_stopped"),
    ("mirror", &["dry-run"], "mirror_command::a_dry_run_plans_and_touches_nothing"),
    ("mirror", &["fail-if-nothing"], "mirror_command::lives"),
    (
        "mirror",
        &["links"],
        "mirror_plans::links_of_a_real_ftp_server_are_followed_within_the_tree_skipped_or_refused",
    ),
    ("verify", &["sums"], "mirror_command::verify_uses_the_lists_in_the_tree"),
    ("verify", &["adopt"], "verify_command::adopting_makes_a_plain_folder_known"),
    (
        "verify",
        &["allow-unknown"],
        "verify_command::unknown_files_are_shown_and_make_exit_code_6_until_they_are_allowed_or_adopted",
    ),
    ("verify", &["json"], "mirror_command::verify_finds_what_was_changed_lost_or_added"),
    (
        "subscribe",
        &["since"],
        "subscribe_command::what_appears_is_delivered_in_order_and_what_was_there_is_not",
    ),
    ("subscribe", &["settle"], "subscribe_command::a_file_that_is_still_written_to_is_waited_for"),
    ("subscribe", &["order"], "subscribe_command::no_name_is_ever_read_as_a_command"),
    ("subscribe", &["recursive"], "subscribe_command::a_stream_comes_from_ftp_and_folders_in_it_if_asked"),
    (
        "subscribe",
        &["follow", "on-rotate"],
        "subscribe_command::a_growing_file_is_appended_to_and_another_one_is_never_spliced_to_it",
    ),
    (
        "subscribe",
        &["name-template", "step"],
        "subscribe_command::names_that_are_known_are_pulled_without_any_listing",
    ),
    (
        "subscribe",
        &["exec", "exec-failure"],
        "subscribe_command::a_command_that_fails_is_tried_again_and_holds_up_deliveries_but_no_pulls",
    ),
    (
        "subscribe",
        &["stdout"],
        "subscribe_command::the_stream_goes_to_a_pipe_in_order_and_goes_on_after_a_restart",
    ),
    ("subscribe", &["keep"], "subscribe_command::old_replicas_are_removed_and_not_pulled_again"),
    (
        "exec",
        &["retries", "every", "max-duration"],
        "exec_command::a_failure_is_tried_again_and_a_schedule_repeats",
    ),
    (
        "exec",
        &["catch-up", "state"],
        "run_lifecycle::a_scheduled_command_line_waits_for_its_time_and_catches_up_if_asked",
    ),
    (
        "mirror",
        &["catch-up"],
        "run_lifecycle::a_scheduled_command_line_waits_for_its_time_and_catches_up_if_asked",
    ),
    ("bwlimit", &["json"], "run_lifecycle::orders_say_what_they_did_and_the_limit_can_be_read"),
    (
        "circle amend",
        &["no-alias"],
        "run_lifecycle::an_address_that_no_circle_covers_is_pulled_outside_with_a_word_until_it_is_an_alias",
    ),
    ("exec", &["stdin"], "exec_command::standard_input_is_closed_unless_asked_for"),
    (
        "exec",
        &["log-format", "log-file"],
        "exec_command::log_lines_go_to_the_file_that_is_named_and_are_nobody_elses",
    ),
    ("run", &["address"], "member_process::an_address_is_a_host_and_a_port_for_run_too"),
    ("run", &["page"], "page::the_json_of_the_page_is_that_of_the_status_command"),
    (
        "run",
        &["on-overload", "webhook", "fail-on-overload"],
        "run_jobs::an_overloaded_circle_is_told_to_a_command_and_a_webhook_and_ends_who_asked_for_it",
    ),
    ("status", &["watch"], "member_process::watching_shows_it_again_and_again_until_interrupted"),
    (
        "status",
        &["check"],
        "status_command::a_member_whose_jobs_go_well_is_well_and_one_whose_job_fails_is_not",
    ),
    (
        "status",
        &["fail-on-overload"],
        "status_command::an_overloaded_circle_fails_who_asked_for_it_and_nobody_else",
    ),
    ("circle invite", &["expires"], "circle_command::an_invitation_is_one_command_alone_on_stdout"),
    ("circle sign", &["member"], "circle_command::a_name_that_somebody_bears_is_not_given_again"),
    (
        "circle amend",
        &["tickets", "faults", "new-ring", "first"],
        "circle_command::a_circle_with_tickets_is_created_shown_and_gets_a_new_ring",
    ),
    ("join", &["request", "member"], "circle_command::a_request_and_its_answer_can_be_made_again"),
    (
        "join",
        &["listen", "address"],
        "circle_command::where_to_listen_is_said_with_the_answer_and_a_request_reminds_of_it",
    ),
    ("join", &["timeout"], "circle_command::nobody_answers"),
    ("join", &["circle"], "circle_command::a_name_that_another_circle_has_here_is_taken"),
    ("simulate", &["figures"], "simulate_command::figures_are_drawn_as_pictures_that_parse"),
    ("simulate", &["trace"], "simulate_command::tickets_in_two_hands_fail_with_the_command_that_repeats_it"),
    ("demo", &["for", "members", "json"], "demo_command::a_demo_is_all_right_and_leaves_nothing_behind"),
    ("demo", &["kill-holder", "no-comparison"], "demo_command::a_killed_holder_costs_nothing_but_its_time"),
    ("demo", &["source-only"], "demo_command::the_source_gives_the_same_files_over_both_protocols"),
];

pub(crate) fn all() -> Vec<(Flag, &'static str)> {
    let each = |(command, flags, test): &(&str, &[&'static str], &'static str)| {
        let (command, test) = ((*command).to_owned(), *test);
        flags.iter().map(move |flag| ((command.clone(), (*flag).to_owned()), test)).collect::<Vec<_>>()
    };
    ROWS.iter().flat_map(each).collect()
}

/// How a flag may be written instead.
pub(crate) fn short(flag: &str) -> Option<&'static str> {
    match flag {
        "output" => Some("\"-o\""),
        "input" => Some("\"-i\""),
        "dry-run" => Some("\"-n\""),
        "max-duration" => Some("\"--for\""),
        _ => None,
    }
}
