package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote"
	"github.com/troupe-run/troupe/remote/client"
)

// query makes a command that asks a server, the first of several that answers, within its time limit.
func query(cmd *cobra.Command, ask func(ctx context.Context, c *client.Client, args []string) error) *cobra.Command {
	return watch(cmd, func(ctx context.Context, c *client.Client, timeout time.Duration, args []string) error {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return ask(ctx, c, args)
	})
}

// watch makes a command that asks a server again and again: the first of several that answers. The time limit is that of each call.
func watch(cmd *cobra.Command, ask func(ctx context.Context, c *client.Client, timeout time.Duration, args []string) error) *cobra.Command {
	timeout := cmd.Flags().Duration("timeout", 15*time.Second, "how long to wait for the server")
	var identity clientFlags
	identity.add(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, release, err := dial(cmd.Context(), args[0], &identity, *timeout)
		if err != nil {
			return err
		}
		defer release()
		return fromServer(ask(cmd.Context(), c, *timeout, args[1:]))
	}
	return cmd
}

// dial makes a client of the first of several servers that answers, and gives what releases it.
func dial(ctx context.Context, target string, identity *clientFlags, timeout time.Duration) (c *client.Client, release func(), err error) {
	targets := strings.Split(target, ",")
	for i, target := range targets {
		targets[i] = remote.Target(strings.TrimSpace(target))
	}
	opts, forget, err := identity.load(nil)
	if err != nil {
		return nil, nil, usage(err)
	}
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if c, err = client.Dial(bounded, strings.Join(targets, ","), opts...); err != nil {
		forget()
		if status.CodeOf(err) == status.InvalidArgument {
			return nil, nil, usage(err)
		}
		return nil, nil, fromServer(err)
	}
	return c, func() {
		_ = c.Close(ctx) // the process ends
		forget()
	}, nil
}

func targetOnly(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usage(fmt.Errorf("one target is expected, such as grpc://10.0.0.2:2222; %d arguments are given", len(args)))
	}
	return nil
}

func newDevices() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "devices TARGET[,TARGET…]",
		Short:   "List the devices of a cluster",
		Long:    "Devices lists the devices of all tasks that the server at TARGET reaches, its own first. With\nseveral targets, it asks the first one that answers.",
		Example: "  troupe devices grpc://10.0.0.2:2222",
		Args:    targetOnly,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return query(cmd, func(ctx context.Context, c *client.Client, _ []string) error {
		devices, err := c.Devices(ctx)
		if err != nil {
			return err
		}
		if asJSON {
			return printJSON(cmd.OutOrStdout(), deviceRecords(devices))
		}
		t := table(cmd.OutOrStdout(), "DEVICE", "TYPE", "MEMORY LIMIT", "INCARNATION", "DESCRIPTION")
		for _, d := range devices {
			t.row(d.Name, d.Type, limitText(d.MemoryLimit), fmt.Sprintf("%016x", d.Incarnation), d.Description)
		}
		return t.end()
	})
}

func newStatus() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status TARGET[,TARGET…]",
		Short: "Show which tasks of a cluster are up",
		Long: `Status shows what the server at TARGET knows of each declared task: whether it is up, down or
never seen, since when, at which address, which version of Troupe it runs, with which devices, and why
it is not up. The server must be Troupe's; TensorFlow's do not have this information. With several targets, it asks the first one that
answers: any task of the cluster knows all tasks. It exits with 1 if a task is not up, with 4 if no
server answers.`,
		Example: "  troupe status grpc://10.0.0.2:2222",
		Args:    targetOnly,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return query(cmd, func(ctx context.Context, c *client.Client, _ []string) error {
		s, err := c.Status(ctx)
		if err != nil {
			return err
		}
		versions, unseen := versionsOf(ctx, c)
		if asJSON {
			return cmp.Or(printJSON(cmd.OutOrStdout(), statusRecordOf(s, versions)), allUp(s))
		}
		t := table(cmd.OutOrStdout(), "TASK", "ADDRESS", "STATE", "SINCE", "VERSION", "DEVICES", "WHY")
		for _, task := range s.Tasks {
			t.row(task.Task, task.Address, task.State, sinceText(task.Since), orDash(versions[task.Task]), devicesText(task.Devices), task.Reason)
		}
		if err := t.end(); err != nil {
			return err
		}
		if unseen != nil {
			if _, err := fmt.Fprintf(cmd.OutOrStdout(), "\nwarning: the versions of the tasks are not known: %v\n", unseen); err != nil {
				return err
			}
		}
		if s.Exposed != "" {
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "\nwarning: %s\n", s.Exposed)
		}
		return cmp.Or(err, allUp(s))
	})
}

// versionsOf asks all tasks that are up for the version of Troupe that they run. A task that does not answer is not in the map.
func versionsOf(ctx context.Context, c *client.Client) (map[string]string, error) {
	// Each task tells of its process, whatever the section; this one is small.
	seen, err := c.See(ctx, &client.Query{Sections: []string{"devices"}, Cluster: true})
	if err != nil {
		return nil, err
	}
	versions := map[string]string{}
	for _, t := range seen.Tasks {
		versions[t.GetTask()] = t.GetProcess().GetVersion()
	}
	return versions, nil
}

// allUp is an error if a task is not up.
func allUp(s *client.ClusterStatus) error {
	if slices.ContainsFunc(s.Tasks, func(t client.TaskStatus) bool { return t.State != "up" }) {
		return errNotUp
	}
	return nil
}

// The records are what --json prints. Their keys are snake_case and part of the command's interface: programs read
// them.
type (
	deviceRecord struct {
		Name        string `json:"name"`
		Type        string `json:"type"`
		MemoryLimit int64  `json:"memory_limit"` // bytes; 0 is none
		Incarnation uint64 `json:"incarnation"`
		Description string `json:"description"`
		Local       bool   `json:"local"`
	}
	taskRecord struct {
		Task    string         `json:"task"`
		Address string         `json:"address"`
		State   string         `json:"state"`
		Since   int64          `json:"since,omitempty"` // nanoseconds since 1970
		Reason  string         `json:"reason,omitempty"`
		Boot    uint64         `json:"boot,omitempty"`
		Version string         `json:"version,omitempty"` // of Troupe; not there if the task did not tell
		Devices []deviceRecord `json:"devices,omitempty"`
	}
	statusRecord struct {
		Task  string       `json:"task"`
		Spec  string       `json:"spec"`
		Tasks []taskRecord `json:"tasks"`
		// Exposed is a warning; it is not there if there is none.
		Exposed string `json:"exposed,omitempty"`
	}
	actorRecord struct {
		Name    string `json:"name"`
		Kind    string `json:"kind"`
		State   string `json:"state"`
		Handled uint64 `json:"handled"`
		Waiting int64  `json:"waiting"`
		Panics  uint64 `json:"panics"`
		Since   int64  `json:"since"` // nanoseconds since 1970
		// Device is there for the executor of a device.
		Device *deviceStateRecord `json:"device,omitempty"`
	}
	deviceStateRecord struct {
		Lost         string `json:"lost,omitempty"`
		Losses       int64  `json:"losses"`
		Incarnation  uint64 `json:"incarnation"`
		PartsRunning int64  `json:"parts_running"`
		PartsDone    int64  `json:"parts_done"`
		PartsFailed  int64  `json:"parts_failed"`
		PartsRefused int64  `json:"parts_refused"`
		Programs     int64  `json:"programs"`
		MemoryLimit  int64  `json:"memory_limit"` // bytes, as what follows; 0 is none
		MemoryInUse  int64  `json:"memory_in_use"`
		MemoryPeak   int64  `json:"memory_peak"`
		MemoryIdle   int64  `json:"memory_idle"`
	}
	actorsRecord struct {
		Task   string        `json:"task"`
		Actors []actorRecord `json:"actors"`
	}
)

func deviceRecords(devices []client.Device) []deviceRecord {
	records := make([]deviceRecord, len(devices))
	for i, d := range devices {
		records[i] = deviceRecord(d)
	}
	return records
}

func statusRecordOf(s *client.ClusterStatus, versions map[string]string) statusRecord {
	r := statusRecord{Task: s.Task, Spec: s.Spec, Tasks: make([]taskRecord, len(s.Tasks)), Exposed: s.Exposed}
	for i, t := range s.Tasks {
		r.Tasks[i] = taskRecord{Task: t.Task, Address: t.Address, State: t.State, Reason: t.Reason, Boot: t.Boot, Version: versions[t.Task],
			Devices: deviceRecords(t.Devices)}
		if !t.Since.IsZero() {
			r.Tasks[i].Since = t.Since.UnixNano()
		}
	}
	return r
}

func actorsRecordOf(list *client.TaskActors) actorsRecord {
	r := actorsRecord{Task: list.Task, Actors: make([]actorRecord, len(list.Actors))}
	for i, a := range list.Actors {
		r.Actors[i] = actorRecord{a.Name, a.Kind, a.State, a.Handled, a.Waiting, a.Panics, a.Since.UnixNano(), (*deviceStateRecord)(a.Device)}
	}
	return r
}

func newActors() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "actors TARGET[,TARGET…]",
		Short: "List the actors of a task",
		Long: `Actors lists the actors of the task at TARGET: its master, worker, directory, sessions, executors of
devices, containers and queues, and the program's own actors. For each, it shows how many messages it
has handled, how many are waiting, how many panicked, and when it was started. For an executor, it
also shows what runs on its device, how much of its memory is in use, and whether and why the device
is lost. With several targets, it asks the first one that answers.`,
		Example: "  troupe actors grpc://10.0.0.2:2222",
		Args:    targetOnly,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return query(cmd, func(ctx context.Context, c *client.Client, _ []string) error {
		list, err := c.Actors(ctx)
		if err != nil {
			return err
		}
		if asJSON {
			return printJSON(cmd.OutOrStdout(), actorsRecordOf(list))
		}
		t := table(cmd.OutOrStdout(), "KIND", "ACTOR", "STATE", "HANDLED", "WAITING", "PANICS", "SINCE", "DEVICE")
		for _, a := range list.Actors {
			t.row(a.Kind, a.Name, a.State, strconv.FormatUint(a.Handled, 10), strconv.FormatInt(a.Waiting, 10), strconv.FormatUint(a.Panics, 10),
				sinceText(a.Since), deviceStateText(a.Device))
		}
		return t.end()
	})
}

// deviceStateText is what an executor knows of its device, in a line; empty for other actors.
func deviceStateText(s *client.DeviceState) string {
	if s == nil {
		return ""
	}
	inUse := size(s.MemoryInUse)
	text := fmt.Sprintf("%d running, %d done, %d failed; %d programs; %s of %s in use", s.PartsRunning, s.PartsDone, s.PartsFailed, s.Programs,
		inUse.String(), limitText(s.MemoryLimit))
	if s.Losses > 0 {
		text += fmt.Sprintf("; lost %d times", s.Losses)
	}
	if s.Lost != "" {
		first, _, _ := strings.Cut(s.Lost, "\n")
		text += fmt.Sprintf(", out of service, %d refused: %s", s.PartsRefused, first)
	}
	return text
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func limitText(bytes int64) string {
	if bytes == 0 {
		return "none"
	}
	s := size(bytes)
	return s.String()
}

func sinceText(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return fmt.Sprintf("%s (%s)", t.Format(time.DateTime), time.Since(t).Round(time.Second))
}

// devicesText counts devices by type: 2 CPU, 1 GPU.
func devicesText(devices []client.Device) string {
	var types []string
	counts := map[string]int{}
	for _, d := range devices {
		if counts[d.Type] == 0 {
			types = append(types, d.Type)
		}
		counts[d.Type]++
	}
	if len(types) == 0 {
		return "-"
	}
	for i, t := range types {
		types[i] = strconv.Itoa(counts[t]) + " " + t
	}
	return strings.Join(types, ", ")
}

// tableWriter prints columns that line up.
type tableWriter struct{ w *tabwriter.Writer }

func table(w io.Writer, head ...string) *tableWriter {
	t := &tableWriter{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	t.row(head...)
	return t
}

func (t *tableWriter) row(cells ...string) {
	// What goes wrong is told by end.
	fmt.Fprintln(t.w, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
}

func (t *tableWriter) end() error { return t.w.Flush() }
