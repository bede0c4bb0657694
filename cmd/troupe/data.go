package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/troupe-run/troupe/cmd/troupe/internal/data"
	"github.com/troupe-run/troupe/cmd/troupe/internal/show"
	"github.com/troupe-run/troupe/internal/bytesize"
	"github.com/troupe-run/troupe/internal/command"
	"github.com/troupe-run/troupe/internal/command/exit"
	"github.com/troupe-run/troupe/internal/command/plain"
)

func newData() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "data",
		Short: "Inspect what stopped tasks have stored, or set its variables",
		Long: `The commands of data read directories in which tasks have kept durable containers (troupe serve --data), while
the tasks are stopped. Import alone changes something in them.`,
		Example: "  troupe data show /var/lib/troupe\n  troupe data export /var/lib/troupe/ps-0 /tmp/model",
		Args:    command.Subcommands,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newDataShow(), newDataCheck(), newDataExport(), newDataImport())
	return cmd
}

// arguments makes a check that a command has as many arguments as names.
func arguments(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != len(names) {
			return exit.Usage(fmt.Errorf("%s expected; %s", strings.Join(names, " and "), given(args)))
		}
		return nil
	}
}

func newDataShow() *cobra.Command {
	l := &look{}
	cmd := &cobra.Command{
		Use:   "show DIR",
		Short: "List what the directories of stopped tasks hold",
		Long: `Show lists the resources, such as variables and queues, in the directory of a stopped task, such as /var/lib/troupe/ps-0, and says to
which task it belongs, whether that was stopped in order, when it was written last and how much room it takes.
If DIR is a directory of such directories, as servers are given with --data, it shows all of them. It changes
nothing in them. BYTES are those on disk.`,
		Example: "  troupe data show /var/lib/troupe\n  troupe data show /var/lib/troupe/ps-0 --json",
		Args:    arguments("a directory is"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var all []*data.Task
			err := eachTask(args[0], func(dir string) error {
				t, err := data.Show(cmd.Context(), dir)
				if err == nil {
					all = append(all, t)
				}
				return err
			})
			return cmp.Or(l.printData(cmd.OutOrStdout(), all), err)
		},
	}
	cmd.Flags().BoolVar(&l.json, "json", false, "print JSON")
	cmd.Flags().BoolVar(&l.wide, "wide", false, "do not truncate columns to fit the terminal")
	return cmd
}

// eachTask calls f with the directories of tasks in dir. It goes on after errors.
func eachTask(dir string, f func(dir string) error) error {
	all, err := data.Find(dir)
	if err != nil {
		return exit.Failed(err)
	}
	var failed []error
	for _, d := range all {
		failed = append(failed, f(d))
	}
	if err := errors.Join(failed...); err != nil {
		return exit.Failed(err)
	}
	return nil
}

// printData prints the data of tasks.
func (l *look) printData(w io.Writer, all []*data.Task) error {
	if len(all) == 0 {
		return nil
	}
	if l.json {
		return printJSON(w, all)
	}
	for i, t := range all {
		if i > 0 {
			if _, err := plain.Println(w); err != nil {
				return err
			}
		}
		state := "stopped in order"
		if !t.Stopped {
			state = "not stopped in order"
		}
		if _, err := plain.Printf(w, "%s: %s, format %d, %s, written last at %s, %s\n", t.Directory, t.Owner, t.Format, state,
			t.Time().Format(time.DateTime), bytesize.Text(t.Bytes)); err != nil {
			return err
		}
		if err := dataTable(t).Write(w, l.columns(w)); err != nil {
			return err
		}
	}
	return nil
}

func dataTable(t *data.Task) *show.Table {
	table := show.NewTable("it holds nothing", show.Columns("DEVICE?", "CONTAINER~", "KIND", "NAME~", "BYTES>", "WHAT~")...)
	for _, r := range t.Resources {
		_, device, _ := strings.Cut(r.Device, "/device:")
		table.Row(device, cmp.Or(r.Container, "(default)"), r.Kind, r.Name, bytesize.Text(r.Bytes), r.Description)
		if r.Problem != "" {
			table.Note("it cannot be read: " + r.Problem)
		}
	}
	return table
}

func newDataCheck() *cobra.Command {
	return &cobra.Command{
		Use:   "check DIR",
		Short: "Find damage in the directories of stopped tasks",
		Long: `Check reads everything in the directory of a stopped task, or in all such directories in DIR: it verifies
checksums, and decodes each value of a variable and each element of a queue. It prints what is damaged, with
the file or the resource, and then exits with 1. It changes nothing.`,
		Example: "  troupe data check /var/lib/troupe",
		Args:    arguments("a directory is"),
		RunE: func(cmd *cobra.Command, args []string) error {
			damaged := false
			err := eachTask(args[0], func(dir string) error {
				whole, err := checkData(cmd.Context(), cmd.OutOrStdout(), dir)
				damaged = damaged || !whole
				return err
			})
			if err == nil && damaged {
				err = errDamaged
			}
			return err
		},
	}
}

// errDamaged is the error for damage that the output has already reported: it has no text of its own.
var errDamaged = exit.Failed(errors.New(""))

// checkData checks a directory and prints the result. whole is false if it is damaged.
func checkData(ctx context.Context, w io.Writer, dir string) (whole bool, err error) {
	r, err := data.Check(ctx, dir)
	if err != nil {
		return true, err
	}
	for _, p := range r.Problems {
		if _, err := plain.Println(w, p); err != nil {
			return false, err
		}
	}
	if len(r.Problems) > 0 {
		return false, nil
	}
	_, err = plain.Printf(w, "%s: no damage in %d resources with %d entries\n", dir, r.Resources, r.Entries)
	return true, err
}

// chosen returns the value of a flag, or nil if the flag is not given: an empty text means something else.
func chosen(cmd *cobra.Command, flag string, value *string) *string {
	if cmd.Flags().Changed(flag) {
		return value
	}
	return nil
}

func newDataExport() *cobra.Command {
	var container string
	cmd := &cobra.Command{
		Use:   "export DIR PREFIX",
		Short: "Write the variables of a stopped task as a checkpoint of TensorFlow",
		Long: `Export writes the variables in the directory of a stopped task as a checkpoint of TensorFlow (PREFIX.index and
PREFIX.data-00000-of-00001), which tf.train.Saver and tf.train.load_checkpoint read. They have their own names;
if two containers have a variable of the same name, choose one of them. Variables without a value are left out.`,
		Example: "  troupe data export /var/lib/troupe/ps-0 /tmp/model --container model",
		Args:    arguments("a directory", "the prefix of a checkpoint are"),
		RunE: func(cmd *cobra.Command, args []string) error {
			done, err := data.Export(cmd.Context(), args[0], args[1], chosen(cmd, "container", &container))
			if err != nil {
				return exit.Failed(err)
			}
			w := cmd.OutOrStdout()
			for _, name := range done.Empty {
				if _, err := plain.Printf(w, "%s has no value and was left out\n", name); err != nil {
					return err
				}
			}
			_, err = plain.Printf(w, "%s: %d variables, %s\n", args[1], done.Variables, bytesize.Text(done.Bytes))
			return err
		},
	}
	cmd.Flags().StringVar(&container, "container", "", "export the variables of this container alone")
	return cmd
}

func newDataImport() *cobra.Command {
	var container string
	var o data.ImportOptions
	cmd := &cobra.Command{
		Use:   "import DIR PREFIX",
		Short: "Give the variables of a stopped task the values of a checkpoint of TensorFlow",
		Long: `Import reads a checkpoint of TensorFlow (PREFIX.index and PREFIX.data-…), as tf.train.Saver and troupe data export
write it, and gives the variables in the directory of a stopped task the values that it has under their names.
Types and shapes must agree. It changes all of them or, after an error, none. Tensors that no variable is
called by are left out, and named, or variables are made for them, as resource variables (use_resource=True,
TensorFlow 2) or reference variables, on the task's CPU and in the container that --container names.`,
		Example: "  troupe data import /var/lib/troupe/ps-0 /tmp/model --container model\n" +
			"  troupe data import /var/lib/troupe/ps-0 /tmp/model --container model --make resource",
		Args: arguments("a directory", "the prefix of a checkpoint are"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Container = chosen(cmd, "container", &container)
			done, err := data.Import(cmd.Context(), args[0], args[1], o)
			if err != nil {
				return exit.Failed(err)
			}
			w := cmd.OutOrStdout()
			for _, name := range done.Made {
				if _, err := plain.Printf(w, "%s was made\n", name); err != nil {
					return err
				}
			}
			for _, name := range done.Left {
				if _, err := plain.Printf(w, "%s is not the name of a variable, and was left out\n", name); err != nil {
					return err
				}
			}
			_, err = plain.Printf(w, "%s: %d variables, %s\n", args[0], done.Variables, bytesize.Text(done.Bytes))
			return err
		},
	}
	cmd.Flags().StringVar(&container, "container", "", "give values to the variables of this container alone")
	cmd.Flags().StringVar(&o.Make, "make", "", "make variables that are not there, of this kind: resource or reference")
	return cmd
}
