// SPDX-License-Identifier: GPL-2.0
/*
 * Which sensors would a real board have here?
 *
 * A virtual machine has no thermometer, no battery, no supply that sags and no clock that slows down. This module shows
 * the kernel's own interfaces for them, with values that a test writes to /sys/module/edge_fake/parameters:
 *
 *     echo 85000 > /sys/module/edge_fake/parameters/temperature_mc
 *
 * Every value is read anew each time somebody looks; nothing follows from another value by itself.
 */

#include <linux/cpufreq.h>
#include <linux/hwmon.h>
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/power_supply.h>
#include <linux/thermal.h>
#include <linux/version.h>

/* The devices that the others hang below, named and placed as on a Raspberry Pi. */
static struct platform_device *soc;
static struct platform_device *firmware;

/* ------------------------------------------------------------------ heat: /sys/class/thermal/thermal_zone0 */

static int temperature_mc = 45000;
module_param(temperature_mc, int, 0644);
MODULE_PARM_DESC(temperature_mc, "temperature of the processor in thousandths of a degree Celsius");

static struct thermal_zone_device *zone;

static int read_temperature(struct thermal_zone_device *asked, int *answer)
{
	*answer = temperature_mc;
	return 0;
}

static struct thermal_zone_device_ops zone_operations = { .get_temp = read_temperature };

static int add_heat(void)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 6, 0)
	zone = thermal_tripless_zone_device_register("cpu-thermal", NULL, &zone_operations, NULL);
#else
	zone = thermal_zone_device_register("cpu-thermal", 0, 0, NULL, &zone_operations, NULL, 0, 0);
#endif
	return IS_ERR(zone) ? PTR_ERR(zone) : thermal_zone_device_enable(zone);
}

static void remove_heat(void)
{
	thermal_zone_device_unregister(zone);
}

/* ------------------------------------------ battery and mains: /sys/class/power_supply/fake_battery, fake_mains */

static int battery_percent = 80;
module_param(battery_percent, int, 0644);
MODULE_PARM_DESC(battery_percent, "charge of the battery");

static int battery_uv = 3700000;
module_param(battery_uv, int, 0644);
MODULE_PARM_DESC(battery_uv, "voltage of the battery in microvolts");

static int power_uw = 3500000;
module_param(power_uw, int, 0644);
MODULE_PARM_DESC(power_uw, "what the board takes, in microwatts; shown by the battery and as power1_input");

static int mains_online = 1;
module_param(mains_online, int, 0644);
MODULE_PARM_DESC(mains_online, "1: on mains, and the battery charges; 0: on battery");

static struct power_supply *battery;
static struct power_supply *mains;

static int read_battery(struct power_supply *asked, enum power_supply_property property,
			union power_supply_propval *answer)
{
	switch (property) {
	case POWER_SUPPLY_PROP_STATUS:
		answer->intval = mains_online ? POWER_SUPPLY_STATUS_CHARGING : POWER_SUPPLY_STATUS_DISCHARGING;
		return 0;
	case POWER_SUPPLY_PROP_PRESENT:
		answer->intval = 1;
		return 0;
	case POWER_SUPPLY_PROP_CAPACITY:
		answer->intval = battery_percent;
		return 0;
	case POWER_SUPPLY_PROP_VOLTAGE_NOW:
		answer->intval = battery_uv;
		return 0;
	case POWER_SUPPLY_PROP_POWER_NOW:
		answer->intval = power_uw;
		return 0;
	default:
		return -EINVAL;
	}
}

static int read_mains(struct power_supply *asked, enum power_supply_property property,
		      union power_supply_propval *answer)
{
	if (property != POWER_SUPPLY_PROP_ONLINE)
		return -EINVAL;
	answer->intval = mains_online;
	return 0;
}

static enum power_supply_property battery_properties[] = {
	POWER_SUPPLY_PROP_STATUS,      POWER_SUPPLY_PROP_PRESENT,   POWER_SUPPLY_PROP_CAPACITY,
	POWER_SUPPLY_PROP_VOLTAGE_NOW, POWER_SUPPLY_PROP_POWER_NOW,
};

static enum power_supply_property mains_properties[] = { POWER_SUPPLY_PROP_ONLINE };

static const struct power_supply_desc battery_description = {
	.name = "fake_battery",
	.type = POWER_SUPPLY_TYPE_BATTERY,
	.properties = battery_properties,
	.num_properties = ARRAY_SIZE(battery_properties),
	.get_property = read_battery,
};

static const struct power_supply_desc mains_description = {
	.name = "fake_mains",
	.type = POWER_SUPPLY_TYPE_MAINS,
	.properties = mains_properties,
	.num_properties = ARRAY_SIZE(mains_properties),
	.get_property = read_mains,
};

static int add_supplies(void)
{
	battery = power_supply_register(&firmware->dev, &battery_description, NULL);
	if (IS_ERR(battery))
		return PTR_ERR(battery);
	mains = power_supply_register(&firmware->dev, &mains_description, NULL);
	if (!IS_ERR(mains))
		return 0;
	power_supply_unregister(battery);
	return PTR_ERR(mains);
}

static void remove_supplies(void)
{
	power_supply_unregister(mains);
	power_supply_unregister(battery);
}

/* ------------------------------- under-voltage as on a Raspberry Pi: hwmon "rpi_volt", and the firmware's own bits */

static int supply_mv = 5050;
module_param(supply_mv, int, 0644);
MODULE_PARM_DESC(supply_mv, "supply voltage in millivolts (in0_input)");

static int under_voltage;
module_param(under_voltage, int, 0644);
MODULE_PARM_DESC(under_voltage, "1: the supply is too low now (in0_lcrit_alarm)");

static int throttled;
module_param(throttled, int, 0644);
MODULE_PARM_DESC(throttled, "bits that the firmware's get_throttled shows, such as 0x50005");

static struct device *monitor;

static umode_t is_readable(const void *data, enum hwmon_sensor_types type, u32 attribute, int channel)
{
	return 0444;
}

static int read_monitor(struct device *device, enum hwmon_sensor_types type, u32 attribute, int channel, long *answer)
{
	if (type == hwmon_in)
		*answer = attribute == hwmon_in_lcrit_alarm ? under_voltage : supply_mv;
	else if (type == hwmon_power)
		*answer = power_uw;
	else
		return -EOPNOTSUPP;
	return 0;
}

static const struct hwmon_ops monitor_operations = { .is_visible = is_readable, .read = read_monitor };

static const struct hwmon_channel_info *monitor_channels[] = {
	HWMON_CHANNEL_INFO(in, HWMON_I_INPUT | HWMON_I_LCRIT_ALARM),
	HWMON_CHANNEL_INFO(power, HWMON_P_INPUT),
	NULL,
};

static const struct hwmon_chip_info monitor_chip = { .ops = &monitor_operations, .info = monitor_channels };

static ssize_t get_throttled_show(struct device *device, struct device_attribute *attribute, char *text)
{
	return sysfs_emit(text, "%x\n", throttled);
}
static DEVICE_ATTR_RO(get_throttled);

static int add_monitor(void)
{
	int fault;

	monitor = hwmon_device_register_with_info(&firmware->dev, "rpi_volt", NULL, &monitor_chip, NULL);
	if (IS_ERR(monitor))
		return PTR_ERR(monitor);
	fault = device_create_file(&firmware->dev, &dev_attr_get_throttled);
	if (fault)
		hwmon_device_unregister(monitor);
	return fault;
}

static void remove_monitor(void)
{
	device_remove_file(&firmware->dev, &dev_attr_get_throttled);
	hwmon_device_unregister(monitor);
}

/* -------------------------- the processor's clock: /sys/devices/system/cpu/cpufreq, one policy for all processors */

static struct cpufreq_frequency_table steps[] = {
	{ .frequency = 600000 },
	{ .frequency = 1000000 },
	{ .frequency = 1500000 },
	{ .frequency = CPUFREQ_TABLE_END },
};

/* Only shown: nothing gets slower by it. */
static unsigned int clock_khz = 1500000;

static int begin_policy(struct cpufreq_policy *policy)
{
	cpumask_setall(policy->cpus);
	policy->freq_table = steps;
	policy->cpuinfo.transition_latency = 1000;
	policy->cur = clock_khz;
	return 0;
}

static int set_step(struct cpufreq_policy *policy, unsigned int index)
{
	clock_khz = steps[index].frequency;
	return 0;
}

static unsigned int read_clock(unsigned int processor)
{
	return clock_khz;
}

static struct cpufreq_driver clock = {
	.name = "edge_fake",
	.init = begin_policy,
	.verify = cpufreq_generic_frequency_table_verify,
	.target_index = set_step,
	.get = read_clock,
	.attr = cpufreq_generic_attr,
};

static int add_clock(void)
{
	return cpufreq_register_driver(&clock);
}

static void remove_clock(void)
{
	cpufreq_unregister_driver(&clock);
}

/* --------------------------------------------------------------------------------------- loading and unloading */

static const struct part {
	int (*add)(void);
	void (*remove)(void);
} parts[] = {
	{ add_heat, remove_heat },
	{ add_supplies, remove_supplies },
	{ add_monitor, remove_monitor },
	{ add_clock, remove_clock },
};

static int add_parents(void)
{
	struct platform_device_info below = { .name = "soc:firmware", .id = PLATFORM_DEVID_NONE };

	soc = platform_device_register_simple("soc", PLATFORM_DEVID_NONE, NULL, 0);
	if (IS_ERR(soc))
		return PTR_ERR(soc);
	below.parent = &soc->dev;
	firmware = platform_device_register_full(&below);
	if (!IS_ERR(firmware))
		return 0;
	platform_device_unregister(soc);
	return PTR_ERR(firmware);
}

static void remove_parts(int count)
{
	while (count--)
		parts[count].remove();
	platform_device_unregister(firmware);
	platform_device_unregister(soc);
}

static int __init load(void)
{
	int index, fault = add_parents();

	if (fault)
		return fault;
	for (index = 0; index < ARRAY_SIZE(parts); index++) {
		fault = parts[index].add();
		if (fault) {
			pr_err("edge_fake: part %d can't be added: %d\n", index, fault);
			remove_parts(index);
			return fault;
		}
	}
	return 0;
}

static void __exit unload(void)
{
	remove_parts(ARRAY_SIZE(parts));
}

module_init(load);
module_exit(unload);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("thermometer, battery, mains, under-voltage and clock of an edge board, with values set at run time");
