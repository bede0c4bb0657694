package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/troupe-run/troupe/cmd/troupe/internal/show"
	"github.com/troupe-run/troupe/internal/command"
	"github.com/troupe-run/troupe/internal/command/exit"
)

// contexts are named clusters, as the file has them.
type contexts struct {
	// Current is the context of commands without a target; it may be empty.
	Current  string                   `json:"current,omitempty"`
	Contexts map[string]contextRecord `json:"contexts"`

	file string
}

// contextRecord is how a cluster is reached: its target, or several separated by commas, and the files with the credentials to present. The
// files' names are absolute.
type contextRecord struct {
	Target string `json:"target"`
	Cert   string `json:"tls_cert,omitempty"`
	Key    string `json:"tls_key,omitempty"`
	CA     string `json:"tls_ca,omitempty"`
	Token  string `json:"token_file,omitempty"`
}

const (
	// maxContexts bounds the bytes of the file, and maxContextName those of a name.
	maxContexts    = 1 << 20
	maxContextName = 64
)

// loadContexts reads the user's contexts. There are none if the file or its directory does not exist.
func loadContexts() (*contexts, error) {
	c := &contexts{Contexts: map[string]contextRecord{}}
	folder, err := os.UserConfigDir()
	if err != nil {
		return c, nil //nolint:nilerr // a user without a folder has no contexts
	}
	c.file = filepath.Join(folder, "troupe", "contexts.json")
	text, err := os.ReadFile(c.file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return c, nil
	case err != nil:
		return nil, err
	case len(text) > maxContexts:
		return nil, fmt.Errorf("%s has more than %d bytes", c.file, maxContexts)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(c); err != nil {
		return nil, fmt.Errorf("%s: %w", c.file, err)
	}
	if c.Contexts == nil {
		c.Contexts = map[string]contextRecord{}
	}
	return c, nil
}

// save replaces the file, which only its user can read.
func (c *contexts) save() error {
	if c.file == "" {
		return errors.New("there is no folder for the user's configuration: set HOME")
	}
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(c.file), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(c.file), ".contexts-*") // of mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), c.file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// find returns the context with a name.
func (c *contexts) find(name string) (contextRecord, error) {
	found, ok := c.Contexts[name]
	if !ok {
		known := "there is none"
		if names := slices.Sorted(maps.Keys(c.Contexts)); len(names) > 0 {
			known = "there is " + strings.Join(names, ", ")
		}
		return found, fmt.Errorf("there is no context %q: %s (troupe context list)", name, known)
	}
	return found, nil
}

func newContext() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "context",
		Short: "Name clusters, and choose one",
		Long: `A context is a name for a cluster: its target, and the files with the certificate or the token to show to it. Commands
that take a target use, in this order: the target on the command line, the context that --context names, the
variable TROUPE_TARGET, and the context that was chosen by troupe context use. The certificate and the token of
a context are shown to its own target alone.

Contexts are kept in the file troupe/contexts.json in the folder for the user's configuration (~/.config on Linux).`,
		Example: "  troupe context set prod --target 10.0.0.2:2222,10.0.0.3:2222 --tls-ca ca.pem --token-file my.token\n  troupe context use prod\n  troupe status",
		Args:    command.Subcommands,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newContextList(), newContextSet(), newContextUse(), newContextDelete())
	return cmd
}

func newContextList() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the contexts",
		Long:    "List shows the contexts; a star marks the one that was chosen.",
		Example: "  troupe context list",
		Args:    noOperands,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := loadContexts()
			if err != nil {
				return exit.Refused(err)
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), all)
			}
			t := show.NewTable("there are no contexts; troupe context set makes one", show.Columns("", "NAME", "TARGET", "SHOWS")...)
			for _, name := range slices.Sorted(maps.Keys(all.Contexts)) {
				mark, c := "", all.Contexts[name]
				if name == all.Current {
					mark = "*"
				}
				t.Row(mark, name, c.Target, c.shows())
			}
			return t.Write(cmd.OutOrStdout(), 0)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// shows describes the credentials that are presented to the servers of a context.
func (c contextRecord) shows() string {
	switch {
	case c.Token != "":
		return "the token in " + c.Token
	case c.Cert != "":
		return "the certificate " + c.Cert
	}
	return "-"
}

func newContextSet() *cobra.Command {
	var c contextRecord
	cmd := &cobra.Command{
		Use:     "set NAME --target TARGET[,TARGET…]",
		Short:   "Make a context, or change it",
		Long:    "Set makes a context, or changes what flags are given for. The files are not read before they are needed.",
		Example: "  troupe context set prod --target grpc://10.0.0.2:2222 --tls-cert me.pem --tls-key me-key.pem --tls-ca ca.pem",
		Args:    contextName,
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := loadContexts()
			if err != nil {
				return exit.Refused(err)
			}
			set := all.Contexts[args[0]]
			for flag, to := range map[string]*string{"target": &set.Target, "tls-cert": &set.Cert, "tls-key": &set.Key, "tls-ca": &set.CA, "token-file": &set.Token} {
				f := cmd.Flags().Lookup(flag)
				if !f.Changed {
					continue
				}
				*to = f.Value.String()
				if flag == "target" || *to == "" {
					continue
				}
				if *to, err = filepath.Abs(*to); err != nil {
					return exit.Failed(err)
				}
			}
			if set.Target == "" {
				return exit.Usage(errors.New("a context needs a target: --target"))
			}
			if names, all := taskNames(set.Target); all {
				return exit.Usage(fmt.Errorf("--target: %s is the name of a task, and a target is the address of a server: HOST:PORT", names[0]))
			}
			all.Contexts[args[0]] = set
			return saved(all.save())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&c.Target, "target", "", "the target of the cluster, or several separated by commas, of which the first that answers is asked")
	flags.StringVar(&c.Cert, "tls-cert", "", "file with the certificate (PEM)")
	flags.StringVar(&c.Key, "tls-key", "", "file with the certificate's key (PEM)")
	flags.StringVar(&c.CA, "tls-ca", "", "file with the certificates of the authorities that are trusted (PEM)")
	flags.StringVar(&c.Token, "token-file", "", "file with a token to show")
	return cmd
}

func newContextUse() *cobra.Command {
	return &cobra.Command{
		Use:     "use NAME",
		Short:   "Choose a context",
		Long:    "Use chooses the context of commands that are given no target.",
		Example: "  troupe context use prod",
		Args:    contextName,
		RunE: func(_ *cobra.Command, args []string) error {
			return changeContext(args[0], func(all *contexts) { all.Current = args[0] })
		},
	}
}

func newContextDelete() *cobra.Command {
	return &cobra.Command{
		Use:     "delete NAME",
		Short:   "Delete a context",
		Long:    "Delete deletes a context. The files that it names stay.",
		Example: "  troupe context delete prod",
		Args:    contextName,
		RunE: func(_ *cobra.Command, args []string) error {
			return changeContext(args[0], func(all *contexts) {
				delete(all.Contexts, args[0])
				if all.Current == args[0] {
					all.Current = ""
				}
			})
		},
	}
}

// changeContext changes an existing context.
func changeContext(name string, change func(*contexts)) error {
	all, err := loadContexts()
	if err != nil {
		return exit.Refused(err)
	}
	if _, err := all.find(name); err != nil {
		return exit.Usage(err)
	}
	change(all)
	return saved(all.save())
}

func saved(err error) error {
	if err != nil {
		return exit.Failed(err)
	}
	return nil
}

func noOperands(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return exit.Usage(fmt.Errorf("unexpected argument %q", args[0]))
	}
	return nil
}

// contextName checks that the one argument is a name for a context.
func contextName(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return exit.Usage(fmt.Errorf("the name of a context is expected; %s", given(args)))
	}
	name := args[0]
	if name == "" || len(name) > maxContextName || strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-@", r))
	}) {
		return exit.Usage(fmt.Errorf("%q is no name for a context: it has 1 to %d letters, digits and . _ - @", name, maxContextName))
	}
	return nil
}
