// Command cluster is etcd with the API server of Kubernetes, or kubectl.
package main

import (
	"log"
	"net/url"
	"os"

	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	if os.Getenv("ETCD") == "" {
		os.Exit(cli.Run(cmd.NewDefaultKubectlCommand()))
	}
	client, err := url.Parse(os.Getenv("ETCD"))
	if err != nil {
		log.Fatal(err)
	}
	c := embed.NewConfig()
	c.Dir, c.LogLevel = os.Getenv("ETCD_DATA"), "error"
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	peer := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	e, err := embed.StartEtcd(c)
	if err != nil {
		log.Fatal(err)
	}
	<-e.Server.ReadyNotify()
	os.Exit(cli.Run(app.NewAPIServerCommand()))
}
