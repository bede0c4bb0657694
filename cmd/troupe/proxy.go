package main

import (
	"errors"
	"fmt"
	"net"
	"os/signal"
	"strings"

	"github.com/spf13/cobra"
	"github.com/troupe-run/troupe/internal/command"
	"github.com/troupe-run/troupe/internal/command/daemon"
	"github.com/troupe-run/troupe/internal/command/exit"
	"github.com/troupe-run/troupe/internal/command/flagset"
	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/proxy"
)

const proxyHelp = `Proxy carries plain connections to a server that demands certificates. TensorFlow's client speaks
no TLS: run the proxy beside it and open sessions on grpc://127.0.0.1:2222.

Whoever connects to the proxy gets its identity. It therefore listens on the loopback interface and,
on Linux, refuses the connections of other users of the machine.`

func newProxy() *cobra.Command {
	var listen, target string
	var anyUser bool
	var identity flagset.TLS
	cmd := &cobra.Command{
		Use:     "proxy",
		Short:   "Carry a client's plain connections to a server with TLS",
		Long:    proxyHelp,
		Example: "  troupe proxy --target 10.0.0.2:2222 --tls-cert client-alice.pem --tls-key client-alice-key.pem --tls-ca ca.pem",
		Args:    command.NoArgs,
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:2222", "host:port that the client connects to")
	cmd.Flags().StringVar(&target, "target", "", "host:port or grpc://host:port of the server")
	cmd.Flags().BoolVar(&anyUser, "any-user", false, "lend the identity to all users of this machine")
	identity.Add(cmd.Flags())
	logger := command.LogFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		log, err := logger()
		if err != nil {
			return err
		}
		if names, all := taskNames(target); all {
			return exit.Usage(fmt.Errorf("--target: %s is the name of a task, and a target is the address of a server: HOST:PORT", names[0]))
		}
		target = strings.TrimPrefix(target, "grpc://")
		if _, _, err := net.SplitHostPort(target); err != nil {
			return exit.Usage(fmt.Errorf("--target is host:port: %w", err))
		}
		credentials, err := identity.Load(access.CredentialConfig{Log: log})
		if err != nil {
			return exit.Refused(err)
		}
		if credentials == nil {
			return exit.Usage(errors.New("a proxy needs an identity: --tls-cert, --tls-key and --tls-ca"))
		}
		defer credentials.Close()
		signals := daemon.CatchSignals()
		defer signal.Stop(signals)
		p, err := proxy.Listen(cmd.Context(), listen, proxy.Config{Target: target, Credentials: credentials, AnyUser: anyUser, Log: log})
		if err != nil {
			return exit.Refused(err)
		}
		if at, ok := p.Address().(*net.TCPAddr); ok && !at.IP.IsLoopback() {
			log.Warn("the proxy listens beyond the loopback interface: whoever reaches it has its identity", "address", p.Address(), "identity", credentials.Name())
		}
		log.Info("carrying connections", "from", p.Address(), "to", target, "identity", credentials.Name())
		select {
		case <-signals:
		case <-cmd.Context().Done():
		}
		return p.Close()
	}
	return cmd
}
