#!/bin/bash -p
# The two roles of the Spark image.
#
#   driver [--conf k=v]… PROGRAM.py [ARGUMENT]…   the driver of a batch, in a pod that a Job created (client mode)
#   driver --local N [--conf k=v]… PROGRAM.py …   the same without executors: N tasks at a time in the driver
#   driver --properties-file FILE …               the driver of a batch, in a pod that spark-submit in cluster mode created
#   executor                                      role of the pods that the driver creates
# In cluster mode the properties file has all properties except spark.driver.bindAddress (SPARK_DRIVER_BIND_ADDRESS) and
# ALWAYS.
# In client mode the driver expects POD_NAME, POD_IP and POD_NAMESPACE (downward API), and the template of the executors in
# /etc/eventconsumer/executor/pod.json (an annotation that the operator writes), and sets itself:
#   spark.master, spark.submit.deployMode, spark.kubernetes.{namespace,driver.pod.name}, spark.driver.{host,bindAddress,port},
#   spark.driver.blockManager.port, spark.kubernetes.authenticate.{caCertFile,oauthTokenFile},
#   spark.kubernetes.executor.{podTemplateFile,podTemplateContainerName,disableConfigMap},
#   spark.authenticate, spark.network.crypto.*, and the executors' label azure.workload.identity/use where the driver has a token
# With --local it needs none of them: it has no executors, and does not use the Kubernetes API.
# Left to the caller's --conf: sizes (spark.{driver,executor}.memory, spark.executor.{cores,instances},
# spark.kubernetes.executor.request.cores), spark.kubernetes.container.image, executor labels. The settings above
# override the caller's.
#
# The operator and Spark set the variables that these programs read, and the image sets the rest: see KNOWN. No variable and
# no file of the user's decides which code Java loads, where its log configuration comes from, or how Kubernetes' client
# signs in: see READ and PINS. Bash itself runs with -p: it reads no BASH_ENV and imports no functions.
set -euo pipefail

# No core dumps of Java and Python: they contain the storage credential.
ulimit -c 0

SERVICE_ACCOUNT=/var/run/secrets/kubernetes.io/serviceaccount
# Not /opt/spark/conf: in cluster mode Spark mounts its own files over this folder.
SPARK_CONF_DIR=/opt/spark/defaults

# Names that the programs started below read: of bash(1), ld.so(8), glibc (mallopt(3), iconv(3), resolver(5)), OpenSSL, tini,
# Java (docs.oracle.com/en/java/javase/17/docs/specs/man/java.html), Log4j (logging.apache.org/log4j/2.x/manual/
# systemproperties.html), the Kubernetes client (github.com/fabric8io/kubernetes-client, "Configuring the client"), Hadoop,
# the scripts of Spark in its bin folder, and python3(1).
READ='^(BASH|ENV$|SHELLOPTS$|PS4$|CDPATH$|GLOBIGNORE$|LD_|GLIBC_|MALLOC_|GCONV_|LOCPATH$|NLSPATH$|HOSTALIASES$|LOCALDOMAIN$'
READ+='|RES_OPTIONS$|OPENSSL_|SSLKEYLOGFILE$|TINI_|_?JAVA|JDK_|CLASSPATH$|LOG4J|KUBE|HADOOP_|HDFS_|YARN_|HIVE_|KRB5'
READ+='|CONTAINER_ID$|LOCAL_DIRS$|SPARK_|PYSPARK_|PYTHON)'
# Those of them that have a use: of this image and its base, of Spark for the pods that it makes
# (org.apache.spark.deploy.k8s.Constants), of the operator, and of the kubelet.
KNOWN='^(MALLOC_ARENA_MAX|PYTHON(PATH|UNBUFFERED|DONTWRITEBYTECODE|_VERSION|_SHA256)|(PYSPARK|PYSPARK_DRIVER)_PYTHON'
KNOWN+='|SPARK_(HOME|USER|LOCAL_DIRS|APPLICATION_ID|DRIVER_(BIND_ADDRESS|POD_IP|URL)|RESOURCE_PROFILE_ID|JAVA_OPT_[0-9]+)'
KNOWN+='|SPARK_EXECUTOR_(ATTRIBUTE_APP_ID|ATTRIBUTE_EXECUTOR_ID|CORES|DIRS|ID|MEMORY|POD_IP|POD_NAME)'
KNOWN+='|KUBERNETES_(SERVICE_HOST|SERVICE_PORT|SERVICE_PORT_HTTPS|PORT|PORT_443_TCP(|_PROTO|_PORT|_ADDR)))$'

# What Java's libraries would otherwise take from variables, from the class path or from $HOME. A system property precedes a
# variable in Log4j as in the Kubernetes client. No script language is allowed, and no configuration from a network.
PINS=(
  "-Dlog4j2.configurationFile=file://$SPARK_CONF_DIR/log4j2.properties"
  -Dlog4j2.configurationAllowedProtocols=file
  -Dlog4j2.scriptEnableLanguages=
  -Dkubernetes.auth.tryKubeConfig=false
)

# The jars in the order in which the archive of Java's classes needs them, see classes/archive.py.
JARS=$(cat /opt/spark/classes/classpath 2>/dev/null || true)
CLASSES=()
[ -z "$JARS" ] || CLASSES=(--driver-class-path "$JARS")

ALWAYS=(
  # The image has the configuration; a ConfigMap for each application is not needed.
  --conf spark.kubernetes.executor.disableConfigMap=true
  # The driver sends the storage credential to executors: connections are authenticated and encrypted.
  --conf spark.authenticate=true
  --conf spark.network.crypto.enabled=true
  # Not AES/GCM: Spark 4.1.1 drops every message after the first with it, so executors never register (SPARK-56227).
  --conf spark.network.crypto.cipher=AES/CTR/NoPadding
)
# If the workload identity webhook injected a token into this pod, the executors need one too.
[ -z "${AZURE_FEDERATED_TOKEN_FILE:-}" ] || ALWAYS+=(--conf spark.kubernetes.executor.label.azure.workload.identity/use=true)

# Replaces this shell by a program with the variables that are KNOWN, and all that these programs do not READ: of the user's
# program, and of an image built on this one. Names that are no identifiers are not passed on: bash(1) takes functions from
# them.
become() {
  local entry name passed=() refused=()
  while IFS= read -r -d '' entry; do
    name=${entry%%=*}
    if [ "$name" = SPARK_CONF_DIR ]; then
      : # Spark sets it in cluster mode
    elif [[ $name =~ ^[a-zA-Z_][a-zA-Z0-9_]*$ ]] && [[ ! $name =~ $READ || $name =~ $KNOWN ]]; then
      passed+=("$entry")
    else
      refused+=("${name//[^a-zA-Z0-9_.-]/?}")
    fi
  done </proc/$$/environ
  [ ${#refused[@]} = 0 ] || echo "entrypoint: variables that only the image sets, ignored: ${refused[*]}" >&2
  exec -c /usr/bin/env "${passed[@]}" "SPARK_CONF_DIR=$SPARK_CONF_DIR" "SPARK_SUBMIT_OPTS=${PINS[*]}" "$@"
}

# tini -g: signals are sent to Java and Python; Python writes the termination message and releases the claim.
driver() {
  if [ "${1:-}" = --properties-file ]; then submitted "$@"; else client "$@"; fi
}

# Spark's own arguments: the command line overrides the properties file, which overrides our defaults.
submitted() {
  : "${SPARK_DRIVER_BIND_ADDRESS:?entrypoint: SPARK_DRIVER_BIND_ADDRESS is not set: Spark sets it in the pods that it makes}"
  become tini -s -g -- "$SPARK_HOME/bin/spark-submit" --deploy-mode client --load-spark-defaults \
    "${CLASSES[@]}" --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" "${ALWAYS[@]}" "$@"
}

client() {
  local own=()
  if [ "${1:-}" = --local ]; then
    [[ "${2:-}" =~ ^[1-9][0-9]*$ ]] || { echo "entrypoint: --local needs a number of tasks" >&2; exit 2; }
    own=(--master "local[$2]" --conf spark.driver.host=127.0.0.1 --conf spark.driver.bindAddress=127.0.0.1)
    shift 2
  else
    with_executors
  fi
  # The options of spark-submit precede the program; later options override equal earlier ones.
  local theirs=()
  while [ "${1:-}" = --conf ]; do
    theirs+=("$1" "${2:?entrypoint: --conf needs key=value}")
    shift 2
  done
  [ $# -gt 0 ] || { echo "entrypoint: driver needs a program, such as local:///app/eventconsumer_spark/job.py" >&2; exit 2; }
  become tini -s -g -- "$SPARK_HOME/bin/spark-submit" "${theirs[@]}" "${CLASSES[@]}" "${own[@]}" "$@"
}

# Sets `own`.
with_executors() {
  local name
  for name in POD_NAME POD_IP POD_NAMESPACE; do
    [ -n "${!name:-}" ] || { echo "entrypoint: $name is not set: set it by the downward API" >&2; exit 2; }
  done
  own=(
    --master k8s://https://kubernetes.default.svc
    --deploy-mode client
    --conf "spark.kubernetes.namespace=$POD_NAMESPACE"
    # This pod owns the executors: they are deleted with it, however it ends.
    --conf "spark.kubernetes.driver.pod.name=$POD_NAME"
    --conf "spark.driver.host=$POD_IP"
    --conf "spark.driver.bindAddress=$POD_IP"
    # Fixed, so that a network policy can name them.
    --conf spark.driver.port=7078
    --conf spark.driver.blockManager.port=7079
    --conf "spark.kubernetes.authenticate.caCertFile=$SERVICE_ACCOUNT/ca.crt"
    --conf "spark.kubernetes.authenticate.oauthTokenFile=$SERVICE_ACCOUNT/token"
    --conf spark.kubernetes.executor.podTemplateFile=/etc/eventconsumer/executor/pod.json
    --conf spark.kubernetes.executor.podTemplateContainerName=executor
    "${ALWAYS[@]}"
  )
}

executor() {
  # SPARK_JAVA_OPT_0, _1, …: one JVM option each, in order.
  local options=() index=0 name
  while name="SPARK_JAVA_OPT_$index"; [ -n "${!name+set}" ]; do
    options+=("${!name}")
    index=$((index + 1))
  done
  become tini -s -- java "${options[@]}" "${PINS[@]}" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
    -cp "${JARS:+$JARS:}$SPARK_CONF_DIR:$SPARK_HOME/jars/*" org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
    --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
}

case "${1:-}" in
  driver) shift; driver "$@" ;;
  executor) executor ;;
  *) echo "entrypoint: the first argument must be driver or executor, not '${1:-}'" >&2; exit 2 ;;
esac
