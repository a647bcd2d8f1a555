{{/* A service of ours beside the router: (list root component values account mounted), and the path of readiness where it
     is not /health.
     `mounted` is a list of {volume, path}; the service finds each at its path. */}}

{{- define "cascadia.ownDeployment" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
{{- $own := index . 2 -}}
{{- $account := index . 3 -}}
{{- $mounted := index . 4 -}}
{{- $ready := gt (len .) 5 | ternary (last .) "/health" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  {{- include "cascadia.metadata" (list $root $component $component) | nindent 2 }}
spec:
  replicas: {{ int $own.replicas }}
  selector:
    matchLabels:
      {{- include "cascadia.selector" (list $root $component) | nindent 6 }}
  strategy:
    type: RollingUpdate
    rollingUpdate: {maxSurge: 1, maxUnavailable: 0}
  revisionHistoryLimit: 3
  template:
    metadata:
      labels:
        {{- include "cascadia.labels" (list $root $component) | nindent 8 }}
        app.kubernetes.io/name: {{ printf "cascadia-%s" $component | quote }}
        cascadia/workload: {{ $component | quote }}
        {{- with $own.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with $own.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: {{ $account | quote }}
      automountServiceAccountToken: {{ ne $account (include "cascadia.fullName" $root) }}
      enableServiceLinks: false
      {{- include "cascadia.pullSecrets" $root | indent 6 }}
      {{- include "cascadia.scheduling" $own | indent 6 }}
      securityContext:
        {{- include "cascadia.podSecurity" $own.podSecurityContext | nindent 8 }}
      topologySpreadConstraints:
        {{- include "cascadia.spread" (list $root $component) | nindent 8 }}
      terminationGracePeriodSeconds: 60
      containers:
        - name: {{ $component | quote }}
          image: {{ include "cascadia.image" (list $root $own.image) | quote }}
          imagePullPolicy: {{ $own.image.pullPolicy | quote }}
          command: [cascadia]
          args:
            {{- toYaml $own.args | nindent 12 }}
          {{- with $own.env }}
          env:
            {{- include "cascadia.variables" . | nindent 12 }}
          {{- end }}
          ports:
            {{- include "cascadia.httpPort" . | nindent 12 }}
          resources:
            {{- toYaml $own.resources | nindent 12 }}
          securityContext:
            {{- include "cascadia.containerSecurity" $own.securityContext | nindent 12 }}
          startupProbe:
            httpGet: {path: /health, port: http}
            timeoutSeconds: 5
            periodSeconds: 2
            failureThreshold: 150
          readinessProbe:
            httpGet: {path: {{ $ready | quote }}, port: http}
            timeoutSeconds: 5
            periodSeconds: 5
            failureThreshold: 2
          livenessProbe:
            httpGet: {path: /health, port: http}
            timeoutSeconds: 5
            periodSeconds: 10
            failureThreshold: 6
          # Routers forget the pod before it ends.
          lifecycle:
            preStop:
              exec:
                command: [sleep, "15"]
          volumeMounts:
            - {name: tmp, mountPath: /tmp}
            {{- range $mounted }}
            - {name: {{ .volume.name | quote }}, mountPath: {{ .path | quote }}, readOnly: true}
            {{- end }}
      volumes:
        - name: tmp
          emptyDir: {}
        {{- range $mounted }}
        - {{- toYaml .volume | nindent 10 }}
        {{- end }}
{{- end }}

{{/* What routers and controllers know each other by, where the workload log is not on a volume that they share. */}}
{{- define "cascadia.samplesToken" -}}
{{- with .Values.controller }}
{{- if and .enabled .samples.secretName (not .samples.claimName) -}}
- name: CASCADIA_SAMPLES_TOKEN
  valueFrom:
    secretKeyRef:
      name: {{ .samples.secretName | quote }}
      key: {{ .samples.secretKey | quote }}
{{- end }}
{{- end }}
{{- end }}

{{/* Keys of stages elsewhere: each is in the one secret under its variable's name. */}}
{{- define "cascadia.externalKeys" -}}
{{- $secret := .Values.externalKeys.secretName -}}
{{- $names := list -}}
{{- range .Values.externalStages -}}
{{- with .apiKeyEnv }}{{ $names = append $names . }}{{ end -}}
{{- end -}}
{{- range uniq $names }}
- name: {{ . | quote }}
  valueFrom:
    secretKeyRef:
      name: {{ $secret | quote }}
      key: {{ . | quote }}
{{- end }}
{{- end }}

{{- define "cascadia.judgeKey" -}}
{{- with .Values.judge.apiKey }}
{{- if .secretName -}}
- name: CASCADIA_JUDGE_KEY
  valueFrom:
    secretKeyRef:
      name: {{ .secretName | quote }}
      key: {{ .secretKey | quote }}
{{- end }}
{{- end }}
{{- end }}
