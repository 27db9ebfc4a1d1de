-- Health of an EventConsumer in Argo CD, derived from its conditions.
local health = {status = "Progressing", message = "the operator has not reconciled this generation yet"}
if obj.status == nil or obj.status.observedGeneration ~= obj.metadata.generation then
  return health
end
local conditions = {}
for _, condition in ipairs(obj.status.conditions or {}) do
  conditions[condition.type] = condition
end
local function is(kind, status)
  return conditions[kind] ~= nil and conditions[kind].status == status
end
if is("Stalled", "True") then
  return {status = "Degraded", message = conditions.Stalled.message}
end
if obj.spec ~= nil and obj.spec.suspend then
  if is("Reconciling", "True") then
    return {status = "Progressing", message = conditions.Reconciling.message}
  end
  return {status = "Suspended", message = "spec.suspend is true: no events are read"}
end
if is("Ready", "True") then
  -- Expired events are lost permanently: report them, but do not block a sync.
  if is("DataGap", "True") then
    return {status = "Healthy", message = conditions.DataGap.message}
  end
  if is("BodiesUnreadable", "True") then
    return {status = "Healthy", message = conditions.BodiesUnreadable.message}
  end
  return {status = "Healthy", message = conditions.Ready.message}
end
for _, kind in ipairs({"Reconciling", "Ready"}) do
  if conditions[kind] ~= nil and conditions[kind].message ~= "" then
    health.message = conditions[kind].message
    break
  end
end
return health
