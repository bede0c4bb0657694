package main

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/troupe-run/troupe/internal/command"
	"github.com/troupe-run/troupe/internal/command/exit"
	"github.com/troupe-run/troupe/internal/command/flagset"
	"github.com/troupe-run/troupe/internal/command/plain"
	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/spec"
)

// The files of an authority's folder.
const (
	authorityCert = "ca.pem"
	authorityKey  = "ca-key.pem"
)

// maxDays bounds the validity of certificates and tokens: a hundred years.
const maxDays = 36500

var validity = flagset.Bounds[int]{Least: 1, Most: maxDays}

func newCerts() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "certs",
		Short: "Make and show the certificates of a cluster",
		Args:  command.Subcommands,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newCertsInit(), newCertsClient(), newCertsShow())
	return cmd
}

const certsInitHelp = `Init makes a certificate authority, and a certificate and key for each task of a cluster. A
task's certificate carries its name (troupe://task/worker/1) and the host of its address; for a
loopback address, also localhost, 127.0.0.1 and ::1.

The folder gets ca.pem, which everybody needs; JOB-INDEX.pem and JOB-INDEX-key.pem, which the task
needs; client-NAME.pem and client-NAME-key.pem for each --client; and ca-key.pem, which only 'troupe
certs' needs: keep it on a machine that runs no server.

--renew issues the certificates anew with the authority that the folder has. A server takes them
over when its files are replaced, without a restart.`

func newCertsInit() *cobra.Command {
	var cluster, out string
	var clients []string
	var days, authorityDays int
	var force, renew bool
	cmd := &cobra.Command{
		Use:     "init",
		Short:   "Make an authority and the certificates of a cluster's tasks",
		Long:    certsInitHelp,
		Example: "  troupe certs init --cluster 'ps=10.0.0.1:2222;worker=10.0.0.2:2222' --out certs --client alice",
		Args:    command.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&cluster, "cluster", "", "the cluster, as job=host:port,host:port;job=host:port")
	flags.StringVar(&out, "out", "", "folder for the certificates and keys; it is made if it is not there")
	flags.StringSliceVar(&clients, "client", nil, "name of a client that gets a certificate, too")
	flagset.Int(flags, &days, "days", 365, validity, "days until the certificates expire")
	flagset.Int(flags, &authorityDays, "ca-days", 3650, validity, "days until the authority expires")
	flags.BoolVar(&force, "force", false, "overwrite files that are there, the authority's among them")
	flags.BoolVar(&renew, "renew", false, "use the authority that the folder has, and overwrite only certificates and keys issued by it")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		declared, err := spec.Parse(cluster)
		switch {
		case cluster == "" || out == "":
			return exit.Usage(errors.New("--cluster and --out are needed"))
		case force && renew:
			return exit.Usage(errors.New("--force makes another authority, --renew keeps it: give one of them"))
		case err != nil:
			return exit.Refused(err)
		}
		for _, name := range clients { // before anything is made
			if _, err := access.ParseName(access.ClientName(name).String()); err != nil {
				return exit.Usage(err)
			}
		}
		until := inDays(days)
		f := folder{path: out, force: force || renew, out: cmd.OutOrStdout()}
		if err := f.make(); err != nil {
			return exit.Failed(err)
		}
		var authority *access.Authority
		if renew {
			authority, err = f.authority()
		} else {
			authority, err = f.newAuthority(authorityDays)
		}
		if err != nil {
			return exit.Failed(err)
		}
		for _, t := range declared.Tasks() {
			r := access.Request{Name: access.TaskName(t.Job, t.Index), Hosts: hostsOf(t.Address), Until: until}
			if err := f.issue(authority, fmt.Sprintf("%s-%d", t.Job, t.Index), r); err != nil {
				return exit.Failed(err)
			}
		}
		for _, name := range clients {
			if err := f.issue(authority, "client-"+name, access.Request{Name: access.ClientName(name), Until: until}); err != nil {
				return exit.Failed(err)
			}
		}
		return nil
	}
	return cmd
}

func newCertsClient() *cobra.Command {
	var dir string
	var days int
	var force bool
	cmd := &cobra.Command{
		Use:     "client NAME",
		Short:   "Issue a certificate for a client",
		Long:    "Client issues a certificate for a client, with the authority that 'troupe certs init' has made in\nthe folder of --out.",
		Example: "  troupe certs client alice --out certs",
		Args:    oneArg("the name of the client"),
	}
	cmd.Flags().StringVar(&dir, "out", "", "folder that has the authority, and gets the certificate and key")
	flagset.Int(cmd.Flags(), &days, "days", 365, validity, "days until the certificate expires")
	cmd.Flags().BoolVar(&force, "force", false, "overwrite files that are there")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if dir == "" {
			return exit.Usage(errors.New("--out is needed: the folder that has the authority"))
		}
		until := inDays(days)
		f := folder{path: dir, force: force, out: cmd.OutOrStdout()}
		authority, err := f.authority()
		if err != nil {
			return exit.Failed(err)
		}
		if err := f.issue(authority, "client-"+args[0], access.Request{Name: access.ClientName(args[0]), Until: until}); err != nil {
			return exit.Failed(err)
		}
		return nil
	}
	return cmd
}

func newCertsShow() *cobra.Command {
	return &cobra.Command{
		Use:     "show FILE",
		Short:   "Show what the certificates of a file say",
		Long:    "Show prints, for each certificate of a file: whom it was issued to and by, for which hosts and uses,\nand until when it holds.",
		Example: "  troupe certs show certs/worker-0.pem",
		Args:    oneArg("the file of certificates"),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := os.ReadFile(args[0])
			if err != nil {
				return exit.Failed(err)
			}
			certs, err := access.ParseCertificates(text)
			if err != nil {
				return exit.Failed(fmt.Errorf("%s: %w", args[0], err))
			}
			for _, c := range certs {
				showCert(cmd.OutOrStdout(), c)
			}
			return nil
		},
	}
}

func showCert(w io.Writer, c *x509.Certificate) {
	name := "an authority"
	if !c.IsCA {
		n, err := access.NameOf(c)
		if name = n.String(); err != nil {
			name = "nobody: " + err.Error()
		}
	}
	state := ""
	if now := time.Now(); now.After(c.NotAfter) {
		state = " (expired)"
	} else if now.Before(c.NotBefore) {
		state = " (not yet valid)"
	}
	hosts := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		hosts = append(hosts, ip.String())
	}
	var uses []string
	for _, u := range c.ExtKeyUsage {
		uses = append(uses, map[x509.ExtKeyUsage]string{x509.ExtKeyUsageServerAuth: "server", x509.ExtKeyUsageClientAuth: "client"}[u])
	}
	plain.Printf(w, "name     %s\nsubject  %s\nissuer   %s\nserial   %x\n", name, c.Subject, c.Issuer, c.SerialNumber)
	plain.Printf(w, "valid    %s to %s%s\n", c.NotBefore.UTC().Format(time.RFC3339), c.NotAfter.UTC().Format(time.RFC3339), state)
	if !c.IsCA {
		plain.Printf(w, "hosts    %s\nuse      %s\n", strings.Join(hosts, ", "), strings.Join(uses, ", "))
	}
}

// hostsOf returns the hosts by which a task is reached at its address in the spec.
func hostsOf(address string) []string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return []string{address}
	}
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		hosts := []string{"localhost", "127.0.0.1", "::1"}
		if !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
		return hosts
	}
	return []string{host}
}

func inDays(days int) time.Time { return time.Now().AddDate(0, 0, days) }

// folder is the directory of an authority and the certificates that it issues.
type folder struct {
	path  string
	force bool
	out   io.Writer
}

// make creates the folder, readable by its user alone.
func (f *folder) make() error {
	if err := os.MkdirAll(f.path, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(f.path)
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		err = fmt.Errorf("others than its user can look into %s (mode %04o): chmod 700 %[1]s, or name another folder", f.path, info.Mode().Perm())
	}
	return err
}

func (f *folder) newAuthority(days int) (*access.Authority, error) {
	a, p, err := access.NewAuthority("Troupe cluster CA", inDays(days))
	if err != nil {
		return nil, err
	}
	if err := f.put(authorityCert, authorityKey, p); err != nil {
		return nil, err
	}
	return a, nil
}

// authority returns the folder's authority.
func (f *folder) authority() (*access.Authority, error) {
	cert, err := os.ReadFile(filepath.Join(f.path, authorityCert))
	if err != nil {
		return nil, fmt.Errorf("there is no authority ('troupe certs init' makes one): %w", err)
	}
	key, err := os.ReadFile(filepath.Join(f.path, authorityKey))
	if err != nil {
		return nil, fmt.Errorf("the authority's key is not there: %w", err)
	}
	return access.LoadAuthority(access.Pair{Cert: cert, Key: key})
}

func (f *folder) issue(a *access.Authority, file string, r access.Request) error {
	p, err := a.Issue(r)
	if err != nil {
		return err
	}
	return f.put(file+".pem", file+"-key.pem", p)
}

func (f *folder) put(cert, key string, p access.Pair) error {
	for _, one := range []struct {
		name string
		b    []byte
	}{{key, p.Key}, {cert, p.Cert}} {
		path := filepath.Join(f.path, one.name)
		if err := writePrivate(path, one.b, f.force); err != nil {
			return err
		}
		plain.Println(f.out, path)
	}
	return nil
}

// writePrivate creates a file that only its user can read. With force, it replaces an existing file
// atomically: a server that watches the file never sees half of it.
func writePrivate(path string, b []byte, force bool) (err error) {
	if !force {
		if _, err := os.Lstat(path); err == nil {
			return fmt.Errorf("%s is there already: --force overwrites it", path)
		}
	}
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(temp.Name()))
		}
	}()
	_, err = temp.Write(b)
	if err == nil {
		err = temp.Sync()
	}
	if err = errors.Join(err, temp.Close()); err != nil {
		return err
	}
	if force {
		return os.Rename(temp.Name(), path)
	}
	// Unlike a rename, a link does not replace a file that was created meanwhile.
	if err = os.Link(temp.Name(), path); err == nil {
		err = os.Remove(temp.Name())
	}
	return err
}

// oneArg checks the arguments of commands that take one.
func oneArg(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return exit.Usage(fmt.Errorf("%s is expected; %s", what, given(args)))
		}
		return nil
	}
}
